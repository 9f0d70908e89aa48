/// Reads JSON that users wrote: checkpoint headers, config.json, data lines, DeepSpeed
/// configurations. It exists beside nlohmann::json because every refusal has to name a
/// line, and because a key that is given twice must be seen: other readers keep the
/// last.
///
/// Values are plain data and own their text. All functions are thread-safe.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata {

struct JsonMember;

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  int line = 0;  // 1-based; where the value starts
  bool boolean = false;
  double number = 0;
  std::string text;              // a string's characters, or a number as it is written
  std::vector<JsonValue> items;  // of an array
  std::vector<JsonMember> members;  // of an object, in the order of the text

  bool is_null() const { return kind == Kind::kNull; }
  bool is_bool() const { return kind == Kind::kBool; }
  bool is_number() const { return kind == Kind::kNumber; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_array() const { return kind == Kind::kArray; }
  bool is_object() const { return kind == Kind::kObject; }

  /// The member of that name, or null. Linear in the number of members.
  const JsonValue* Find(absl::string_view name) const;

  /// The number, if it is a whole one that fits: 12, 5e8 and 12.0, but not 12.5 or
  /// 1e30.
  std::optional<int64_t> AsInteger() const;

  /// The value in short, for messages: 5e8, "auto", true, [2 values], {3 keys}.
  std::string Describe() const;
};

struct JsonMember {
  std::string name;
  int line = 0;  // 1-based
  JsonValue value;
};

/// A place in the text and what is there.
struct JsonNote {
  std::string path;  // "zero_optimization.reduce_bucket_size"; empty for the whole text
  int line = 0;
  std::string text;
};

struct JsonDocument {
  JsonValue root;
  /// The first comment, trailing comma or byte-order mark, if there is any.
  std::optional<JsonNote> not_plain;
  /// Keys given twice (the first one counts in `root`), and NaN or Infinity.
  std::vector<JsonNote> faults;
};

/// Parses plain JSON. InvalidArgument, with `name` and the line, for anything else:
/// comments, trailing commas, NaN, keys given twice and nesting over 100 levels too.
absl::StatusOr<JsonValue> ParseJson(absl::string_view text, absl::string_view name);

/// Parses JSON as people edit it: comments (//, /* */, #), trailing commas and a
/// byte-order mark are read and noted; keys given twice, NaN and Infinity are noted as
/// faults so that the caller can report all of them at once. InvalidArgument for what
/// cannot be read at all.
absl::StatusOr<JsonDocument> ParseRelaxedJson(absl::string_view text,
                                              absl::string_view name);

}  // namespace strata
