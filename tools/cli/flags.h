/// The flags of a program: a table of names and of the variables that they set. All
/// four programs read their command line with it, so that they agree on what people
/// type:
///
///   --name value   --name=value   --switch   --switch true   --switch=false
///
/// A dash in a name may stand for an underscore. A flag that is typed twice keeps the
/// last value; one that sets a vector keeps all of them. Nothing is ignored: a name
/// that is not in the table is refused, with the nearest one that is.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/cli/flag_value.h"

namespace strata::cli {

/// How a flag reads in --help.
struct FlagText {
  std::string value = {};  // what stands for the value: "N", "DIR"; "" for a switch
  std::string help;        // what it does, with the unit
  /// What happens without the flag; if empty, the value that its variable has now.
  std::string absent = {};
  /// Limits of a number, both allowed.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  /// If not empty, the only texts that are allowed.
  std::vector<std::string> choices = {};
};

/// Not thread-safe. The variables must outlive it.
class Flags {
 public:
  /// `program`: "tierplan"; `summary`: what it does, in a sentence or two; `examples`:
  /// command lines, one each.
  Flags(std::string program, std::string summary, std::vector<std::string> examples);

  /// Flags that are added from here on stand under `title` in --help.
  void BeginGroup(std::string title);

  /// `T` is bool (a switch), int64_t, double, Size, std::string, std::vector of
  /// std::string, or an std::optional of one of the first five. REQUIRES: `name`,
  /// written with underscores and without dashes in front, is new.
  template <typename T>
  void Add(absl::string_view name, T* target, FlagText text) {
    constexpr bool kIsSwitch =
        std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>;
    std::string absent = text.absent.empty() ? ShowValue(*target) : text.absent;
    AddFlag({.name = std::string(name),
             .text = std::move(text),
             .absent = std::move(absent),
             .is_switch = kIsSwitch,
             .set = [target](absl::string_view typed) {
               return ReadValue(typed, *target);
             }});
  }

  /// Reads `arguments` (without the program's name) into the variables.
  /// InvalidArgument, with what to do as its mend, at the first that is wrong. Every
  /// program has --help and --version; with one of them nothing else is read.
  absl::Status Parse(std::span<const char* const> arguments);

  /// Was the flag typed?
  bool IsGiven(absl::string_view name) const;
  bool wants_help() const { return wants_help_; }
  bool wants_version() const { return wants_version_; }

  const std::string& program() const { return program_; }
  /// The text of --help, 88 columns wide.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    FlagText text;
    std::string absent;
    bool is_switch = false;
    std::function<absl::Status(absl::string_view)> set;
    size_t group = 0;
    bool is_given = false;
  };

  void AddFlag(Flag flag);
  Flag* Find(absl::string_view name);
  absl::Status UnknownFlag(absl::string_view typed) const;
  absl::Status Set(Flag& flag, absl::string_view typed);
  std::string Describe(const Flag& flag) const;

  std::string program_;
  std::string summary_;
  std::vector<std::string> examples_;
  std::vector<std::string> groups_;
  std::vector<Flag> flags_;
  bool wants_help_ = false;
  bool wants_version_ = false;
};

}  // namespace strata::cli
