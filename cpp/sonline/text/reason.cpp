#include "sonline/text/reason.hpp"

namespace sonline::text {

const char* name_of(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kLineTooLong:
      return "line_too_long";
    case Reason::kControlByte:
      return "control_byte";
    case Reason::kInvalidUtf8:
      return "invalid_utf8";
    case Reason::kLabelMissing:
      return "label_missing";
    case Reason::kLabelIsFeature:
      return "label_is_feature";
    case Reason::kNotANumber:
      return "not_a_number";
    case Reason::kNotFinite:
      return "not_finite";
    case Reason::kOverflow:
      return "overflow";
    case Reason::kOverflowFloat32:
      return "overflow_float32";
    case Reason::kValueTooLarge:
      return "value_too_large";
    case Reason::kValueMissing:
      return "value_missing";
    case Reason::kColonMissing:
      return "colon_missing";
    case Reason::kIndexNotInteger:
      return "index_not_integer";
    case Reason::kIndexTooLarge:
      return "index_too_large";
    case Reason::kNameNotIndex:
      return "name_not_index";
    case Reason::kQueryNotInteger:
      return "query_not_integer";
    case Reason::kQueryMisplaced:
      return "query_misplaced";
    case Reason::kBarMissing:
      return "bar_missing";
    case Reason::kTooManyLabelFields:
      return "too_many_label_fields";
    case Reason::kNegativeWeight:
      return "negative_weight";
    case Reason::kNamespaceMissing:
      return "namespace_missing";
    case Reason::kCellCount:
      return "cell_count";
    case Reason::kQuoteOpen:
      return "quote_open";
    case Reason::kJsonObject:
      return "json_object";
    case Reason::kJsonKey:
      return "json_key";
    case Reason::kJsonColon:
      return "json_colon";
    case Reason::kJsonComma:
      return "json_comma";
    case Reason::kJsonValue:
      return "json_value";
    case Reason::kJsonNumber:
      return "json_number";
    case Reason::kJsonString:
      return "json_string";
    case Reason::kJsonEscape:
      return "json_escape";
    case Reason::kJsonSurrogate:
      return "json_surrogate";
    case Reason::kJsonDeep:
      return "json_deep";
    case Reason::kJsonRest:
      return "json_rest";
    case Reason::kJsonTwice:
      return "json_twice";
    case Reason::kJsonKind:
      return "json_kind";
  }
  return "unknown";
}

const char* explain(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "no error";
    case Reason::kLineTooLong:
      return "the line is longer than 64 MB; perhaps a line break is missing";
    case Reason::kControlByte:
      return "a control byte (such as NUL, or a carriage return that does not end the line); "
             "expected text";
    case Reason::kInvalidUtf8:
      return "not valid UTF-8; names, tags and class labels must be, so convert the file";
    case Reason::kLabelMissing:
      return "expected a label; to predict rows without labels, allow them";
    case Reason::kLabelIsFeature:
      return "expected a label before the first index:value; to predict rows without labels, allow "
             "them";
    case Reason::kNotANumber:
      return "expected a number such as 1, -0.5 or 2e-3";
    case Reason::kNotFinite:
      return "nan and inf are not accepted; leave the feature out if its value is unknown";
    case Reason::kOverflow:
      return "the number is too large for float64";
    case Reason::kOverflowFloat32:
      return "the value is too large for float32; ask for float64 values or scale the feature";
    case Reason::kValueTooLarge:
      return "the value is too large to learn from (1e18 at most in float32, 1e150 in float64); "
             "scale the feature or ask for float64 values";
    case Reason::kValueMissing:
      return "expected a number directly after ':'";
    case Reason::kColonMissing:
      return "expected index:value";
    case Reason::kIndexNotInteger:
      return "expected index:value with an index of decimal digits only";
    case Reason::kIndexTooLarge:
      return "the index is larger than 2^63 - 1; hash the features by name instead";
    case Reason::kNameNotIndex:
      return "features are read by index, so names must be integers from 0 to 2^63 - 1 in the "
             "default namespace; read them by name or hashed instead";
    case Reason::kQueryNotInteger:
      return "expected qid: and an integer from 0 to 2^63 - 1";
    case Reason::kQueryMisplaced:
      return "qid: must stand once, directly after the label";
    case Reason::kBarMissing:
      return "expected '|' between the label and the features";
    case Reason::kTooManyLabelFields:
      return "expected at most label, importance, base and 'tag before '|'";
    case Reason::kNegativeWeight:
      return "an importance weight must not be negative";
    case Reason::kNamespaceMissing:
      return "expected a namespace or a blank directly after '|'";
    case Reason::kCellCount:
      return "expected as many cells as there are columns";
    case Reason::kQuoteOpen:
      return "a quotation mark is not closed";
    case Reason::kJsonObject:
      return "expected an object, such as {\"label\": 1, \"age\": 42}";
    case Reason::kJsonKey:
      return "not valid JSON: expected a key in double quotes";
    case Reason::kJsonColon:
      return "not valid JSON: expected ':' after the key";
    case Reason::kJsonComma:
      return "not valid JSON: expected ',' or the closing bracket";
    case Reason::kJsonValue:
      return "not valid JSON: expected a value: a number, a string, true, false, null, an array or "
             "an object";
    case Reason::kJsonNumber:
      return "not valid JSON: not a number as JSON writes them, such as 1, -0.5 or 2e-3";
    case Reason::kJsonString:
      return "not valid JSON: a string that does not end on its line, or holds a control character";
    case Reason::kJsonEscape:
      return "not valid JSON: an unknown escape in a string";
    case Reason::kJsonSurrogate:
      return "half of a surrogate pair, which is no character";
    case Reason::kJsonDeep:
      return "JSON nested too deeply";
    case Reason::kJsonRest:
      return "not valid JSON: there is more after the object; write one object per line";
    case Reason::kJsonTwice:
      return "the key is there twice";
    case Reason::kJsonKind:
      return "the column holds another kind of value than expected";
  }
  return "unknown error";
}

}  // namespace sonline::text
