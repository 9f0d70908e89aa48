#include "runtime/base/status.h"

#include <absl/strings/str_cat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace strata {
namespace {

constexpr absl::string_view kMendUrl = "strata/mend";

}  // namespace

absl::Status IoError(int error_number, absl::string_view context) {
  const char* name = strerrorname_np(error_number);
  const std::string message =
      absl::StrCat(context, ": ", strerror(error_number), " (",
                   name == nullptr ? absl::StrCat("errno ", error_number) : name, ")");
  switch (error_number) {
    case EIO:
    case EBADMSG:
    case ENODATA:
    case EREMOTEIO:
      return absl::DataLossError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    case ENOTDIR:
    case EISDIR:
      return absl::InvalidArgumentError(message);
    default:
      return absl::Status(absl::ErrnoToStatusCode(error_number), message);
  }
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&annotated](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

absl::Status WithMend(absl::Status status, absl::string_view mend) {
  status.SetPayload(kMendUrl, absl::Cord(mend));  // does nothing if OK
  return status;
}

std::string MendOf(const absl::Status& status) {
  const absl::optional<absl::Cord> mend = status.GetPayload(kMendUrl);
  return mend.has_value() ? std::string(*mend) : "";
}

namespace internal {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "CHECK failed: %s at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace internal
}  // namespace strata
