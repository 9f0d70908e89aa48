#include "tools/machine/find_profile.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "runtime/device/cpu_device.h"
#include "runtime/plan/machine_profile_json.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

/// A home directory of the test's own.
class ProfileForRunTest : public testing::Test {
 protected:
  ProfileForRunTest() {
    unsetenv("STRATA_PROFILE");
    setenv("HOME", home_.path().c_str(), 1);
    profile_.name = "measured";
    profile_.machine = MachineName(system_);
    profile_.device = "cpu";
    profile_.compute_flops = 12345;
  }

  void Store(const std::string& text) {
    std::filesystem::create_directories(home_.File(".config/strata"));
    home_.Write(".config/strata/profile.json", text);
  }
  absl::StatusOr<FoundProfile> Find() { return ProfileForRun(system_, *device_); }

  const TemporaryDirectory home_;
  const SystemView system_ = SystemView::OfThisMachine();
  const std::unique_ptr<CpuDevice> device_ = CreateCpuDevice({});
  MachineProfile profile_;
};

TEST_F(ProfileForRunTest, IsTheStoredOneOfThisMachineAndDevice) {
  Store(MachineProfileJson(profile_));
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->profile.compute_flops, 12345);
  EXPECT_EQ(found->source.find("measured"), 0u) << found->source;
}

TEST_F(ProfileForRunTest, IsAPresetThatSaysSoWhereNoneIsStored) {
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->profile.name, "cpu");
  EXPECT_EQ(found->source.find("a preset, not measured here"), 0u) << found->source;
  EXPECT_NE(found->source.find("tierbench --save_profile"), std::string::npos);
}

TEST_F(ProfileForRunTest, IsNotAnotherMachinesOrDevices) {
  for (std::string MachineProfile::*place :
       {&MachineProfile::machine, &MachineProfile::device}) {
    MachineProfile other = profile_;
    other.*place = "something else";
    Store(MachineProfileJson(other));
    const auto found = Find();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_NE(found->profile.compute_flops, 12345);
    EXPECT_NE(found->source.find("something else"), std::string::npos) << found->source;
    EXPECT_NE(found->source.find(profile_.machine), std::string::npos) << found->source;
  }
}

TEST_F(ProfileForRunTest, RefusesABrokenFileByItsName) {
  Store("{");
  const auto found = Find();
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find(".config/strata/profile.json"),
            absl::string_view::npos)
      << found.status();
}

TEST_F(ProfileForRunTest, ANamedFileThatIsMissingIsAnError) {
  setenv("STRATA_PROFILE", home_.File("none.json").c_str(), 1);
  EXPECT_FALSE(Find().ok());
}

}  // namespace
}  // namespace strata
