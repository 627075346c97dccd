#include "sonline/text/reason.hpp"

#include <array>
#include <cstddef>

namespace sonline::text {

namespace {

struct Entry {
  const char* name;
  const char* text;
};

// In the order of Reason.
constexpr std::array kReasons = {
    Entry{"none", "no error"},
    Entry{"line_too_long", "the line is longer than 64 MB; perhaps a line break is missing"},
    Entry{"control_byte",
          "a control byte (such as NUL, or a carriage return that does not end the line); "
          "expected text"},
    Entry{"invalid_utf8",
          "not valid UTF-8; names, tags and class labels must be, so convert the file"},
    Entry{"label_missing", "expected a label; to predict rows without labels, allow them"},
    Entry{"label_is_feature",
          "expected a label before the first index:value; to predict rows without labels, allow "
          "them"},
    Entry{"not_a_number", "expected a number such as 1, -0.5 or 2e-3"},
    Entry{"not_finite",
          "nan and inf are not accepted; leave the feature out if its value is unknown"},
    Entry{"overflow", "the number is too large for float64"},
    Entry{"overflow_float32",
          "the value is too large for float32; ask for float64 values or scale the feature"},
    Entry{"value_too_large",
          "the value is too large to learn from (1e18 at most in float32, 1e150 in float64); "
          "scale the feature or ask for float64 values"},
    Entry{"value_missing", "expected a number directly after ':'"},
    Entry{"colon_missing", "expected index:value"},
    Entry{"index_not_integer", "expected index:value with an index of decimal digits only"},
    Entry{"index_too_large",
          "the index is larger than 2^63 - 1; hash the features by name instead"},
    Entry{"name_not_index",
          "features are read by index, so names must be integers from 0 to 2^63 - 1 in the "
          "default namespace; read them by name or hashed instead"},
    Entry{"query_not_integer", "expected qid: and an integer from 0 to 2^63 - 1"},
    Entry{"query_misplaced", "qid: must stand once, directly after the label"},
    Entry{"bar_missing", "expected '|' between the label and the features"},
    Entry{"too_many_label_fields", "expected at most label, importance, base and 'tag before '|'"},
    Entry{"base_prediction",
          "a base prediction (the third number before '|') cannot be learned from; remove it"},
    Entry{"negative_weight", "an importance weight must not be negative"},
    Entry{"namespace_missing", "expected a namespace or a blank directly after '|'"},
    Entry{"cell_count", "expected as many cells as there are columns"},
    Entry{"quote_open", "a quotation mark is not closed"},
    Entry{"cell_missing", "a cell has no value"},
    Entry{"json_object", "expected an object, such as {\"label\": 1, \"age\": 42}"},
    Entry{"json_key", "not valid JSON: expected a key in double quotes"},
    Entry{"json_colon", "not valid JSON: expected ':' after the key"},
    Entry{"json_comma", "not valid JSON: expected ',' or the closing bracket"},
    Entry{"json_value",
          "not valid JSON: expected a value: a number, a string, true, false, null, an array or "
          "an object"},
    Entry{"json_number",
          "not valid JSON: not a number as JSON writes them, such as 1, -0.5 or 2e-3"},
    Entry{"json_string",
          "not valid JSON: a string that does not end on its line, or holds a control character"},
    Entry{"json_escape", "not valid JSON: an unknown escape in a string"},
    Entry{"json_surrogate", "half of a surrogate pair, which is no character"},
    Entry{"json_deep", "JSON nested too deeply"},
    Entry{"json_rest", "not valid JSON: there is more after the object; write one object per line"},
    Entry{"json_twice", "the key is there twice"},
    Entry{"json_kind", "the column holds another kind of value than expected"},
    Entry{"json_nested",
          "the column holds single values in some rows, objects or arrays in others"},
    Entry{"not_a_date", "not a date such as 2024-05-17 or 2024-05-17T12:30:00"},
};

static_assert(kReasons.size() == static_cast<size_t>(Reason::kNotADate) + 1);

const Entry& entry(Reason reason) { return kReasons[static_cast<size_t>(reason)]; }

}  // namespace

const char* name_of(Reason reason) { return entry(reason).name; }

const char* explain(Reason reason) { return entry(reason).text; }

}  // namespace sonline::text
