#include "tools/cli/program.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "runtime/base/status.h"

namespace strata::cli {
namespace {

std::string OneLine(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\n", " "}});
}

/// What to do about an error that does not say so itself.
absl::string_view UsualMend(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return "correct what is named above and start again";
    case absl::StatusCode::kNotFound:
      return "check the path";
    case absl::StatusCode::kPermissionDenied:
      return "check the owner and the mode of what is named above";
    case absl::StatusCode::kResourceExhausted:
      return "free some of it, or ask for less";
    case absl::StatusCode::kDataLoss:
      return "check the drive (dmesg, smartctl) and use another one";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kFailedPrecondition:
      return "tierinfo says what this machine offers";
    default:
      return "this should not happen: please report it with the command line";
  }
}

absl::Status WriteAndClose(FILE* file, absl::string_view text) {
  const bool is_written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size() &&
      std::fflush(file) == 0;
  const int write_error = errno;
  if (std::fclose(file) != 0 && is_written) return IoError(errno, "close");
  return is_written ? absl::OkStatus() : IoError(write_error, "write");
}

}  // namespace

std::optional<int> ReadCommandLine(int argc, char** argv, Flags& flags) {
  const std::span<const char* const> arguments(argv, static_cast<size_t>(argc));
  const absl::Status status = flags.Parse(arguments.subspan(argc > 0 ? 1 : 0));
  if (!status.ok()) return Refuse(status);
  if (flags.wants_help()) {
    std::fputs(flags.Help().c_str(), stdout);
    return kDone;
  }
  if (flags.wants_version()) {
    std::printf("%s (strata) %s, %s\n", flags.program().c_str(), STRATA_VERSION,
                STRATA_BUILD);
    return kDone;
  }
  return std::nullopt;
}

std::string ErrorText(const absl::Status& error) {
  const std::string mend = MendOf(error);
  return absl::StrCat(
      "error: ", OneLine(error.message()),
      "\ndo: ", mend.empty() ? std::string(UsualMend(error.code())) : OneLine(mend),
      "\n");
}

int Refuse(const absl::Status& error) {
  std::fputs(ErrorText(error).c_str(), stderr);
  return kRefused;
}

int Fail(const absl::Status& error) {
  std::fputs(ErrorText(error).c_str(), stderr);
  return kFailed;
}

absl::Status WriteOutput(absl::string_view path, absl::string_view text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0 ? absl::OkStatus()
                                    : IoError(errno, "write to standard output");
  }
  const std::string target(path);
  struct stat found;
  const bool is_special = stat(target.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
  // A pipe or /dev/null stays what it is.
  const std::string written =
      is_special ? target : absl::StrCat(path, ".", getpid(), ".tmp");
  FILE* const file = std::fopen(written.c_str(), is_special ? "wbe" : "wbxe");
  if (file == nullptr) return IoError(errno, absl::StrCat("create ", target));
  absl::Status status = WriteAndClose(file, text);
  if (is_special) return Annotate(status, target);
  if (status.ok() && std::rename(written.c_str(), target.c_str()) != 0) {
    status = IoError(errno, "rename");
  }
  if (!status.ok()) unlink(written.c_str());
  return Annotate(status, target);
}

}  // namespace strata::cli
