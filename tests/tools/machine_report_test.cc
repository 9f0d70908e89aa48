/// What the probes make of machines that are not this one.
#include "tools/machine/machine_report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/types.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

class MachineReportTest : public testing::Test {
 protected:
  MachineReportTest() {
    system_ = {.root = root_.path(),
               .kernel = "6.1.0-13-amd64",
               .architecture = "x86_64",
               .page_bytes = 4096,
               .core_count = 8,
               .shm_bytes = 8 * kGiB};
    Write("/proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n");
    Write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    Write("/proc/cpuinfo",
          "model name\t: A CPU\nflags\t\t: sse4_2 popcnt avx2 fma f16c bmi2\n");
    Write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    Write("/proc/sys/fs/aio-max-nr", "65536\n");
    Write("/proc/sys/fs/aio-nr", "0\n");
  }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(
        std::filesystem::path(root_.path() + path).parent_path());
    root_.Write(path.substr(1), text);
  }

  TemporaryDirectory root_;
  SystemView system_;
};

// The mend of the limit that says `part`; "" if none does.
std::string MendOfLimit(const Section& section, const std::string& part) {
  for (const Limit& limit : section.limits) {
    if (limit.what.find(part) != std::string::npos) return limit.mend;
  }
  return "";
}

TEST_F(MachineReportTest, AGoodHostHasNoLimit) {
  EXPECT_TRUE(ProbeHost(system_).limits.empty());
  EXPECT_TRUE(ProbeNvme(system_, {}).limits.empty());
}

TEST_F(MachineReportTest, EachLimitOfTheHostNamesItsMend) {
  system_.memlock_bytes = 64 * kKiB;
  system_.shm_bytes = 64 * kMiB;
  Write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "4294967296\n");
  Write("/sys/fs/cgroup/memory.current", "0\n");
  const Section host = ProbeHost(system_);
  EXPECT_NE(MendOfLimit(host, "memlock is 64.00 KiB").find("ulimit -l unlimited"),
            std::string::npos);
  EXPECT_NE(MendOfLimit(host, "/dev/shm has").find("--shm-size"), std::string::npos);
  EXPECT_NE(MendOfLimit(host, "huge pages are off").find("echo madvise"),
            std::string::npos);
  EXPECT_NE(MendOfLimit(host, "4.00 GiB of the machine's 32.00 GiB").find("--memory"),
            std::string::npos);
  EXPECT_EQ(host.limits.size(), 4u);
}

TEST_F(MachineReportTest, APrivilegedProcessIsNotLimitedByMemlock) {
  system_.memlock_bytes = 64 * kKiB;
  Write("/proc/self/status", "CapEff:\t0000000000004000\n");  // CAP_IPC_LOCK
  EXPECT_TRUE(ProbeHost(system_).limits.empty());
}

TEST_F(MachineReportTest, SwitchedOffAndExhaustedBackendsNameTheirSysctl) {
  Write("/proc/sys/kernel/io_uring_disabled", "2\n");
  Write("/proc/sys/fs/aio-nr", "65000\n");
  system_.file_size_bytes = kMiB;
  const Section nvme = ProbeNvme(system_, {});
  EXPECT_EQ(MendOfLimit(nvme, "io_uring_disabled is 2"),
            "sysctl -w kernel.io_uring_disabled=0 (as root)");
  EXPECT_NE(MendOfLimit(nvme, "leaves 536 requests").find("fs.aio-max-nr"),
            std::string::npos);
  EXPECT_EQ(MendOfLimit(nvme, "RLIMIT_FSIZE"), "ulimit -f unlimited");
}

TEST_F(MachineReportTest, InstructionSetsNeedAllTheirFlags) {
  Section machine = ProbeMachine(system_);
  EXPECT_NE(MendOfLimit(machine, "no AVX-512"), "");
  Write("/proc/cpuinfo", "flags : sse4_2 popcnt avx2 fma f16c\n");  // no bmi2
  EXPECT_NE(MendOfLimit(ProbeMachine(system_), "no AVX2"), "");
}

TEST_F(MachineReportTest, ACpuQuotaBelowTheCoresIsALimit) {
  Write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_NE(MendOfLimit(ProbeMachine(system_), "2.5 of 8 cores"), "");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(MendOfLimit(ProbeMachine(system_), "cores"), "");
}

TEST_F(MachineReportTest, KernelsThatPinLittleAreNamed) {
  for (const char* kernel : {"6.11.0", "6.13.7-generic"}) {
    system_.kernel = kernel;
    EXPECT_NE(MendOfLimit(ProbeMachine(system_), "pins at most 2 GB"), "") << kernel;
  }
  for (const char* kernel : {"6.10.9", "6.14.0", "7.0.1"}) {
    system_.kernel = kernel;
    EXPECT_EQ(MendOfLimit(ProbeMachine(system_), "pins at most 2 GB"), "") << kernel;
  }
}

TEST_F(MachineReportTest, ACardWithFewerLanesThanItHasIsALimit) {
  const std::string card = "/sys/bus/pci/devices/0000:01:00.0/";
  Write(card + "vendor", "0x10de\n");
  Write(card + "class", "0x030200\n");
  Write(card + "current_link_width", "4\n");
  Write(card + "max_link_width", "16\n");
  Write(card + "max_link_speed", "16.0 GT/s PCIe\n");
  EXPECT_NE(MendOfLimit(ProbeDevice(system_), "4 of its 16 PCIe lanes"), "");
  Write(card + "class", "0x040300\n");  // its sound device
  EXPECT_EQ(MendOfLimit(ProbeDevice(system_), "PCIe lanes"), "");
}

TEST_F(MachineReportTest, ADirectoryInMemoryIsNoDrive) {
  const Section nvme = ProbeNvme(SystemView::OfThisMachine(), {"/dev/shm"});
  ASSERT_EQ(nvme.parts.size(), 1u);
  EXPECT_NE(MendOfLimit(nvme.parts[0], "takes host memory"), "");
}

TEST_F(MachineReportTest, JsonListsTheLimitsOfAllSectionsWithTheirTier) {
  Section host{.key = "host", .title = "Host", .limits = {{"little", "more"}}};
  Section nvme{.key = "nvme", .title = "NVMe", .parts_key = "paths"};
  nvme.parts.push_back({.key = "path", .title = "/a", .limits = {{"slow", "faster"}}});
  nvme.parts[0].Add("path", "/a", "", "");
  const auto json = nlohmann::json::parse(ReportJson({host, nvme}), nullptr, false);
  EXPECT_EQ(json["limits"], nlohmann::json::parse(
                                R"([{"tier":"host","what":"little","do":"more"},
                    {"tier":"nvme","what":"slow","do":"faster"}])"));
  EXPECT_EQ(json["nvme"]["paths"][0]["path"], "/a");
}

}  // namespace
}  // namespace strata
