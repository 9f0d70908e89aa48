#include "runtime/plan/machine_profile_json.h"

#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(MachineProfileJson, ReadsBackWhatItWrote) {
  for (const KnownMachine& machine : KnownMachines()) {
    const std::string text = MachineProfileJson(machine.profile);
    const auto read = ParseMachineProfile(text, "p.json");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(MachineProfileJson(*read), text);
    EXPECT_EQ(read->name, machine.profile.name);
    EXPECT_EQ(read->nvme_write, machine.profile.nvme_write);
    EXPECT_EQ(read->nvme_both, machine.profile.nvme_both);
    EXPECT_EQ(read->cpu_update, machine.profile.cpu_update);
    EXPECT_EQ(read->device_overhead_bytes, machine.profile.device_overhead_bytes);
  }
}

TEST(MachineProfileJson, KeepsWhereItWasMeasured) {
  MachineProfile profile = KnownMachines()[0].profile;
  profile.machine = "AMD \"EPYC\", 2 cores";
  profile.device = "cpu";
  profile.nvme_chunk_bytes = 1 << 20;
  profile.nvme_window_bytes = 4 << 20;
  const auto read = ParseMachineProfile(MachineProfileJson(profile), "p.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->machine, profile.machine);
  EXPECT_EQ(read->device, profile.device);
  EXPECT_EQ(read->nvme_chunk_bytes, 1 << 20);
  EXPECT_EQ(read->nvme_window_bytes, 4 << 20);
}

TEST(MachineProfileJson, RefusesWhatIsNoProfileByKey) {
  const std::string good = MachineProfileJson(KnownMachines()[0].profile);
  for (const auto& [from, to, named] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"{", "[", "not a JSON object"},
           {"\"name\": \"h200\"", "\"name\": \"h200\", \"machine\": 1",
            "'machine' is not a text"},
           {"\"compute_flop_per_second\"", "\"compute_flops_per_second\"",
            "did you mean 'compute_flop_per_second'?"},
           {"\"name\": \"h200\",", "", "'name' is missing"},
           {"\"name\": \"h200\",", "\"name\": \"\", \"nvme_chunk_bytes\": 100,",
            "'nvme_chunk_bytes' is 100, no multiple of 4096"},
           {"\"name\": \"h200\",", "\"name\": \"\", \"nvme_chunk_bytes\": 8192,",
            "'nvme_window_bytes' is less than a chunk"},
           {"\"name\": \"h200\"", "\"name\": 5", "'name' is not a text"},
           {"\"op_overhead_seconds\": 5e-06", "\"op_overhead_seconds\": -1",
            "'op_overhead_seconds' is -1"},
           {"\"op_overhead_seconds\"",
            "\"nvme_read_bytes_per_second\": 0,\n\"op_overhead_seconds\"",
            "'nvme_read_bytes_per_second' is 0"},
           {"\"device_overhead_bytes\": ",
            "\"device_overhead_bytes\": \"much\", \"x\": ", "p.json"}}) {
    const std::string text = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(text, good) << from;
    const auto read = ParseMachineProfile(text, "p.json");
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << from;
    EXPECT_NE(read.status().message().find(named), absl::string_view::npos)
        << read.status();
  }
}

TEST(KnownMachines, AreFoundByTheirNames) {
  for (const char* name : {"h200", "rtx4090", "rtx3090", "cpu"}) {
    ASSERT_NE(FindKnownMachine(name), nullptr) << name;
  }
  EXPECT_EQ(FindKnownMachine("tpu"), nullptr);
}

}  // namespace
}  // namespace strata
