#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <string>

#include "tools/cli/flags.h"

namespace strata::cli {
namespace {

constexpr size_t kWidth = 88;
constexpr size_t kHelpColumn = 30;

/// `text` broken between words so that it fills columns [indent, kWidth). The first
/// line stands where the caller's cursor is: at column `indent`.
std::string Wrap(absl::string_view text, size_t indent) {
  std::string wrapped;
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      absl::StrAppend(&wrapped, " ");
      ++column;
    }
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

}  // namespace

std::string Flags::Describe(const Flag& flag) const {
  std::string left = absl::StrCat("  --", flag.name);
  if (!flag.is_switch) absl::StrAppend(&left, " ", flag.text.value);
  std::string help = flag.text.help;
  if (!flag.absent.empty()) absl::StrAppend(&help, " (default: ", flag.absent, ")");
  if (left.size() + 2 > kHelpColumn) {
    absl::StrAppend(&left, "\n", std::string(kHelpColumn, ' '));
  } else {
    left.resize(kHelpColumn, ' ');
  }
  return absl::StrCat(left, Wrap(help, kHelpColumn), "\n");
}

std::string Flags::Help() const {
  std::string help =
      absl::StrCat("usage: ", program_, " [flags]\n\n", Wrap(summary_, 0), "\n");
  for (size_t group = 0; group < groups_.size(); ++group) {
    absl::StrAppend(&help, "\n", groups_[group], "\n");
    for (const Flag& flag : flags_) {
      if (flag.group == group) absl::StrAppend(&help, Describe(flag));
    }
  }
  absl::StrAppend(&help, "\nOther\n", "  --help                      this text\n",
                  "  --version                   the version and how it was built\n",
                  "\nSizes take K, M, G, T or KB, MB, GB, TB = powers of 1000 and KiB, "
                  "MiB, GiB, TiB =\npowers of 1024. Switches take --switch, --switch "
                  "true and --switch=false.\n");
  if (!examples_.empty()) {
    absl::StrAppend(&help, "\nExamples\n  ", absl::StrJoin(examples_, "\n  "), "\n");
  }
  return help;
}

}  // namespace strata::cli
