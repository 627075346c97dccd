// Why a line could not be parsed. reason.cpp has the name and the text of each reason.
#pragma once

#include <cstdint>

namespace sonline::text {

enum class Reason : uint8_t {
  kNone,
  kLineTooLong,
  kControlByte,
  kInvalidUtf8,
  kLabelMissing,
  kLabelIsFeature,
  kNotANumber,
  kNotFinite,
  kOverflow,
  kOverflowFloat32,
  kValueTooLarge,
  kValueMissing,
  kColonMissing,
  kIndexNotInteger,
  kIndexTooLarge,
  kNameNotIndex,
  kQueryNotInteger,
  kQueryMisplaced,
  kBarMissing,
  kTooManyLabelFields,
  kBasePrediction,
  kNegativeWeight,
  kNamespaceMissing,
  kCellCount,
  kQuoteOpen,
  kCellMissing,
  kJsonObject,
  kJsonKey,
  kJsonColon,
  kJsonComma,
  kJsonValue,
  kJsonNumber,
  kJsonString,
  kJsonEscape,
  kJsonSurrogate,
  kJsonDeep,
  kJsonRest,
  kJsonTwice,
  kJsonKind,
  kJsonNested,
  kNotADate,
};

// A short name for programs, such as "not_a_number".
const char* name_of(Reason reason);

// The error, what was expected and what to do, without position and text.
const char* explain(Reason reason);

}  // namespace sonline::text
