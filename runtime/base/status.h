/// Error handling: absl::Status everywhere, and the few helpers that the LTS release
/// of our platforms (20220623) does not ship.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <utility>

namespace strata {

/// Status for a failed system call; `error_number` is a positive errno. EIO becomes
/// DataLoss and ENOSPC, EDQUOT and EFBIG become ResourceExhausted, which
/// absl::ErrnoToStatus reports as Unknown. The message ends in the errno's name and text.
absl::Status IoError(int error_number, absl::string_view context);

/// `status` with `context` and ": " before its message. OK stays OK; payloads stay.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

/// `status` with what the user can do about it, apart from the message: programs print
/// it on a line of its own. OK stays OK. The last mend that was given counts.
absl::Status WithMend(absl::Status status, absl::string_view mend);
/// What WithMend was given, or "".
std::string MendOf(const absl::Status& status);

namespace internal {
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);
}  // namespace internal
}  // namespace strata

/// Aborts unless `condition` holds, in every build. For programmer errors only: a full
/// disk, a bad file or a missing device is a Status, never a CHECK.
#define STRATA_CHECK(condition) \
  ((condition) ? (void)0        \
               : ::strata::internal::CheckFailed(#condition, __FILE__, __LINE__))

#define STRATA_RETURN_IF_ERROR(expression)                           \
  do {                                                               \
    if (absl::Status strata_status = (expression); !strata_status.ok()) { \
      return strata_status;                                          \
    }                                                                \
  } while (false)

#define STRATA_CONCAT_INNER(a, b) a##b
#define STRATA_CONCAT(a, b) STRATA_CONCAT_INNER(a, b)

/// STRATA_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(kind, size_bytes));
#define STRATA_ASSIGN_OR_RETURN(target, expression) \
  STRATA_ASSIGN_OR_RETURN_IMPL(STRATA_CONCAT(strata_result_, __LINE__), target, expression)
#define STRATA_ASSIGN_OR_RETURN_IMPL(result, target, expression) \
  auto result = (expression);                                    \
  if (!result.ok()) return std::move(result).status();           \
  target = *std::move(result)
