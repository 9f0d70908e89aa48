/// A DeepSpeed JSON file as a flat table of known keys with values of their type.
/// Reading follows these rules:
///  - whole numbers may be written as 5e8 or 500000000.0; numbers and truth values as
///    text, and fractions for whole numbers (cut), are read with a warning;
///  - comments, trailing commas and a byte-order mark are read with one warning; keys
///    given twice, NaN and Infinity are refused, with lines;
///  - unknown keys are refused where DeepSpeed refuses them, and anywhere if they can
///    only mean a key that changes the numbers; otherwise they are ignored with a
///    warning. Either way the nearest valid key is named;
///  - old names are read with a warning; old and new together are refused;
///  - what would change the numbers or the data and has no counterpart is refused when
///    it is on, and passed over in silence when it is off.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/config_note.h"
#include "model/deepspeed_schema.h"

namespace strata {

struct DeepSpeedValue {
  std::string written_path;  // maybe an old name
  int line = 0;
  bool is_auto = false;
  int64_t integer = 0;          // kCount, kInteger
  double number = 0;            // kCount, kInteger, kNumber
  bool boolean = false;         // kBool
  std::string text;             // kText; else the value in short, for messages
  std::vector<double> numbers;  // kNumbers
};

/// A key that was given and does nothing here.
struct IgnoredKey {
  std::string path;
  std::string value;
  std::string note;  // why
};

class DeepSpeedConfig {
 public:
  /// An empty one: no file.
  DeepSpeedConfig() = default;

  /// Never fails: what is wrong, a text that is no JSON included, goes into `report`.
  static DeepSpeedConfig Parse(absl::string_view text, absl::string_view name,
                               ConfigReport& report);

  const std::string& name() const { return name_; }  // empty: no file
  /// The value of a used key under its present name, or null. A section has one if it
  /// is there at all.
  const DeepSpeedValue* Find(absl::string_view path) const;
  const std::vector<IgnoredKey>& ignored() const { return ignored_; }

 private:
  friend class DeepSpeedReader;

  std::string name_;
  std::map<std::string, DeepSpeedValue> values_;
  std::vector<IgnoredKey> ignored_;
};

}  // namespace strata
