#include "runtime/device/device.h"

#include "runtime/base/status.h"

namespace strata {

Buffer::~Buffer() {
  if (!bytes_.empty()) device_->DoFree(kind_, bytes_);
}

absl::StatusOr<Buffer> Device::Allocate(MemoryKind kind, int64_t size_bytes) {
  STRATA_CHECK(size_bytes >= 0);
  if (size_bytes == 0) return Buffer();
  STRATA_ASSIGN_OR_RETURN(std::byte* const data, DoAllocate(kind, size_bytes));
  return Buffer(this, kind, {data, static_cast<size_t>(size_bytes)});
}

}  // namespace strata
