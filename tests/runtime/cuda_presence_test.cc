#include <gtest/gtest.h>

#include "runtime/device/cuda_device.h"

namespace strata {
namespace {

TEST(CreateCudaDevice, GivesADeviceOrSaysWhyThereIsNone) {
  const auto device = CreateCudaDevice(0);
  if (device.ok()) {
    EXPECT_EQ((*device)->kind(), DeviceKind::kCuda);
    return;
  }
  EXPECT_EQ(device.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(device.status().message().find("CPU device"), absl::string_view::npos)
      << device.status();
}

}  // namespace
}  // namespace strata
