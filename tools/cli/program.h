/// What the four programs have in common besides flags: exit codes, how they report an
/// error, and how they write a file that another program reads.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <optional>

#include "tools/cli/flags.h"

namespace strata::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;   // while running
inline constexpr int kRefused = 2;  // before anything was done
inline constexpr int kInterrupted = 130;

/// Reads main's arguments. The exit code if that was all there is to do: --help and
/// --version (printed), or an error (reported).
std::optional<int> ReadCommandLine(int argc, char** argv, Flags& flags);

/// Reports `error` on stderr, on one line what and on one line what to do, and returns
/// the exit code. What to do is the status's mend (WithMend), or follows from its code.
int Refuse(const absl::Status& error);
int Fail(const absl::Status& error);

/// The two lines that Refuse and Fail print, for tests.
std::string ErrorText(const absl::Status& error);

/// Puts `text` in the file `path` in one step: a reader sees all of it or what was
/// there before. "-" writes to standard output.
absl::Status WriteOutput(absl::string_view path, absl::string_view text);

}  // namespace strata::cli
