#include "tools/tierbench/copy_load.h"

#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tiers/signals.h"

namespace strata {
namespace {

constexpr int64_t kCopyBytes = 64 * kMiB;

}  // namespace

absl::StatusOr<std::unique_ptr<CopyLoad>> CopyLoad::Start(Device& device) {
  auto load = std::unique_ptr<CopyLoad>(new CopyLoad);
  STRATA_ASSIGN_OR_RETURN(load->host_,
                          device.Allocate(MemoryKind::kPinnedHost, 2 * kCopyBytes));
  STRATA_ASSIGN_OR_RETURN(load->device_,
                          device.Allocate(MemoryKind::kDevice, 2 * kCopyBytes));
  STRATA_ASSIGN_OR_RETURN(load->up_, device.CreateStream("load up", 64));
  STRATA_ASSIGN_OR_RETURN(load->down_, device.CreateStream("load down", 64));
  load->thread_ = std::thread([raw = load.get()] { raw->Run(); });
  return load;
}

CopyLoad::~CopyLoad() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void CopyLoad::Run() {
  BlockAllSignals();
  while (!stopping_) {
    // Two of each under way at once, so that the link never waits.
    for (int i = 0; i < 2; ++i) {
      up_->Copy(device_.data(), host_.data(), kCopyBytes);
      down_->Copy(host_.data() + kCopyBytes, device_.data() + kCopyBytes, kCopyBytes);
    }
    if (!up_->Synchronize().ok() || !down_->Synchronize().ok()) return;
    bytes_.fetch_add(4 * kCopyBytes, std::memory_order_relaxed);
  }
}

}  // namespace strata
