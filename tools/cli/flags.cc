#include "tools/cli/flags.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <optional>

#include "runtime/base/nearest_name.h"
#include "runtime/base/status.h"

namespace strata::cli {
namespace {

absl::Status BadCommandLine(absl::string_view what, absl::string_view mend) {
  return WithMend(absl::InvalidArgumentError(what), mend);
}

std::string LimitsOf(const FlagText& text) {
  const bool has_least = text.least > -std::numeric_limits<double>::infinity();
  const bool has_most = text.most < std::numeric_limits<double>::infinity();
  if (has_least && has_most) return absl::StrCat(text.least, " to ", text.most);
  return has_least ? absl::StrCat(text.least, " or more")
                   : absl::StrCat(text.most, " or less");
}

}  // namespace

Flags::Flags(std::string program, std::string summary,
             std::vector<std::string> examples)
    : program_(std::move(program)),
      summary_(std::move(summary)),
      examples_(std::move(examples)) {}

void Flags::BeginGroup(std::string title) { groups_.push_back(std::move(title)); }

void Flags::AddFlag(Flag flag) {
  STRATA_CHECK(!groups_.empty() && Find(flag.name) == nullptr);
  flag.group = groups_.size() - 1;
  flags_.push_back(std::move(flag));
}

Flags::Flag* Flags::Find(absl::string_view name) {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&](const Flag& flag) { return flag.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

bool Flags::IsGiven(absl::string_view name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&](const Flag& flag) { return flag.name == name; });
  STRATA_CHECK(found != flags_.end());
  return found->is_given;
}

absl::Status Flags::UnknownFlag(absl::string_view typed) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::optional<std::string> nearest = NearestName(typed, names);
  const std::string list = absl::StrCat(program_, " --help lists all flags");
  return BadCommandLine(
      absl::StrCat("unknown flag --", typed),
      nearest ? absl::StrCat("did you mean --", *nearest, "? ", list) : list);
}

absl::Status Flags::Set(Flag& flag, absl::string_view typed) {
  const std::string name = absl::StrCat("--", flag.name);
  const std::string help =
      absl::StrCat("see ", name, " in ", program_, " --help: ", flag.text.help);
  const std::vector<std::string>& choices = flag.text.choices;
  if (!choices.empty() &&
      std::find(choices.begin(), choices.end(), typed) == choices.end()) {
    return BadCommandLine(absl::StrCat(name, " is '", typed, "'"),
                          absl::StrCat("take one of ", absl::StrJoin(choices, ", ")));
  }
  if (const absl::Status status = flag.set(typed); !status.ok()) {
    return BadCommandLine(absl::StrCat(name, ": ", status.message()), help);
  }
  double number = 0;
  if (absl::SimpleAtod(typed, &number) &&
      !(number >= flag.text.least && number <= flag.text.most)) {
    return BadCommandLine(absl::StrCat(name, " is ", typed),
                          absl::StrCat("take ", LimitsOf(flag.text)));
  }
  flag.is_given = true;
  return absl::OkStatus();
}

absl::Status Flags::Parse(std::span<const char* const> arguments) {
  for (const absl::string_view argument : arguments) {
    wants_help_ |= argument == "--help" || argument == "-h";
    wants_version_ |= argument == "--version";
  }
  if (wants_help_ || wants_version_) return absl::OkStatus();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (!absl::StartsWith(argument, "--")) {
      return BadCommandLine(
          absl::StrCat("'", argument, "' belongs to no flag"),
          absl::StrCat("write --flag value; ", program_, " --help lists all flags"));
    }
    const size_t equals = argument.find('=');
    const std::string typed(argument.substr(2, equals - 2));
    Flag* const flag = Find(absl::StrReplaceAll(typed, {{"-", "_"}}));
    if (flag == nullptr) return UnknownFlag(typed);
    absl::string_view value;
    const bool has_next = i + 1 < arguments.size();
    if (equals != absl::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (flag->is_switch) {
      const bool has_value = has_next && !absl::StartsWith(arguments[i + 1], "--");
      value = has_value ? arguments[++i] : "true";
    } else if (has_next && !absl::StartsWith(arguments[i + 1], "--")) {
      value = arguments[++i];
    } else {
      return BadCommandLine(
          absl::StrCat("--", flag->name, " needs a value"),
          absl::StrCat("write --", flag->name, " ", flag->text.value));
    }
    STRATA_RETURN_IF_ERROR(Set(*flag, value));
  }
  return absl::OkStatus();
}

}  // namespace strata::cli
