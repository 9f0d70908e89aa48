/// The keys of DeepSpeed's JSON as data: what type each has, what it means here, under
/// which names it has gone, and what people write instead of it.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace strata {

enum class KeyType : uint8_t {
  kSection,  // an object with keys of its own in this table
  kCount,    // a whole number, not negative
  kInteger,  // a whole number
  kNumber,
  kBool,
  kText,
  kNumbers,  // a list of numbers
  kOpaque,   // anything, not looked into
};

enum class KeyRole : uint8_t {
  kUsed,           // resolved into the run's configuration
  kNoEffect,       // accepted in silence; `note` says what it would have done
  kRefusedWhenOn,  // would change numbers or data; `note` says what to do instead
};

/// When a section of kRefusedWhenOn counts as on.
enum class OnRule : uint8_t {
  kTrue,        // a key that is true, or a number other than 0 and 1
  kEnabled,     // a section whose `enabled` is true
  kAnyEnabled,  // `enabled` is true anywhere within it
  kPresent,     // an object that is not empty
};

struct KeySpec {
  const char* path;  // "zero_optimization.stage"
  KeyType type;
  KeyRole role = KeyRole::kUsed;
  const char* note = "";
  OnRule on = OnRule::kTrue;
};

/// All keys, sections before their members.
std::span<const KeySpec> DeepSpeedKeys();
const KeySpec* FindDeepSpeedKey(absl::string_view path);

/// Another name of a key. Both names together are a contradiction.
struct KeyAlias {
  const char* path;
  const char* canonical_path;
  bool deprecated;  // worth a warning
};
const KeyAlias* FindDeepSpeedAlias(absl::string_view path);

/// DeepSpeed itself refuses unknown keys there.
bool IsStrictSection(absl::string_view section);

/// The key changes what is computed: a misspelling of it must not be passed over.
bool ChangesNumbers(absl::string_view path);

/// What to say of a key that is not in the table.
struct UnknownKey {
  std::string nearest;  // path of the nearest valid key
  bool meant = false;   // it can hardly have meant anything else
};
UnknownKey ExplainUnknownKey(absl::string_view section, absl::string_view name);

}  // namespace strata
