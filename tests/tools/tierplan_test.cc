/// tierplan as a user sees it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/plan/machine_profile_json.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

// Without the profile that may be stored on this machine.
ProgramRun TierPlan(Arguments arguments) {
  arguments.insert(arguments.begin(), TIERPLAN);
  return RunProgram(arguments, {"HOME=/nowhere", "STRATA_PROFILE="});
}

const Arguments kSmall = {"--model_name_or_path", "smollm2-135m",
                          "--tokens_per_step",    "512",
                          "--hardware",           "cpu"};

Arguments Join(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Json PlanOf(const Arguments& arguments, int expected_exit) {
  const ProgramRun run = TierPlan(Join(arguments, {"--json", "-"}));
  EXPECT_EQ(run.exit_code, expected_exit) << run.errors;
  Json json = Json::parse(run.output, nullptr, false);
  EXPECT_TRUE(json.is_object()) << run.output;
  return json;
}

TEST(TierPlan, CountsTheParametersOfWellKnownModelsExactly) {
  for (const auto& [name, parameters] : std::vector<std::pair<std::string, int64_t>>{
           {"llama-3.2-1b", 1235814400},
           {"meta-llama/Llama-3.1-8B", 8030261248},
           {"llama-2-7b", 6738415616},
           {"tinyllama-1.1b", 1100048384}}) {
    const Json plan = PlanOf(
        {"--model_name_or_path", name, "--tokens_per_step", "2048", "--device_memory",
         "100GiB", "--host_memory", "200GiB", "--hardware", "h200"},
        0);
    EXPECT_EQ(plan["parameters"], parameters) << name;
    EXPECT_EQ(plan["fits"], true);
  }
}

TEST(TierPlan, StaysWithinItsBudgetsAndAddsUp) {
  const Json json = PlanOf(Join(kSmall, {"--device_memory", "600MB", "--host_memory",
                                         "1GB", "--nvme", "4GB"}),
                           0);
  const Json& plan = json["plan"];
  for (const char* tier : {"device", "host", "nvme"}) {
    EXPECT_LE(plan["peak_bytes"][tier], json["budgets"][tier]) << tier;
    int64_t sum = 0;
    for (const Json& bytes : plan["bytes_by_kind"]) {
      EXPECT_GE(bytes[tier], 0) << plan;
      sum += bytes[tier].get<int64_t>();
    }
    EXPECT_EQ(sum, plan["peak_bytes"][tier]) << tier;
  }
  int64_t optimizer = 0;
  for (const Json& bytes : plan["bytes_by_kind"]["optimizer"])
    optimizer += bytes.get<int64_t>();
  EXPECT_GE(optimizer, 10 * json["parameters"].get<int64_t>());
  EXPECT_GT(plan["forecast_seconds"], 0);
  EXPECT_GE(plan["forecast_seconds"].get<double>() * 1.0001,
            plan["floor_seconds"].get<double>());
  EXPECT_NEAR(plan["tokens_per_second"].get<double>(),
              512 / plan["forecast_seconds"].get<double>(), 1);
}

TEST(TierPlan, NamesTheCheapestChangeWhereNothingFitsAndThatChangeFits) {
  const Arguments poor = Join(kSmall, {"--device_memory", "500MB"});
  const ProgramRun run = TierPlan(Join(poor, {"--host_memory", "1GB"}));
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.output.find("It does not fit."), std::string::npos) << run.output;
  EXPECT_EQ(run.errors.find("error: no plan fits"), 0u) << run.errors;
  const std::string raise = "do: raise host memory to ";
  const size_t found = run.errors.find(raise);
  ASSERT_NE(found, std::string::npos) << run.errors;
  const std::string bytes = run.errors.substr(
      found + raise.size(), run.errors.find(" bytes", found) - found - raise.size());
  EXPECT_EQ(TierPlan(Join(poor, {"--host_memory", bytes})).exit_code, 0) << bytes;
  const Json json = PlanOf(Join(poor, {"--host_memory", "1GB"}), 3);
  EXPECT_EQ(json["fits"], false);
  EXPECT_TRUE(json["plan"].is_null());
  EXPECT_NE(json["do"], "");
}

TEST(TierPlan, CountsTheContextAsPartOfTheDevicesBudget) {
  const Arguments model = {"--model_name_or_path", "smollm2-135m",
                           "--tokens_per_step",    "512",
                           "--host_memory",        "4GB"};
  const Json json =
      PlanOf(Join(model, {"--device_memory", "2GiB", "--hardware", "rtx4090"}), 0);
  EXPECT_LE(json["plan"]["process_peak_bytes"]["device"], int64_t{2} << 30);
  EXPECT_GT(json["plan"]["process_peak_bytes"]["device"],
            json["plan"]["peak_bytes"]["device"]);
  EXPECT_EQ(
      TierPlan(Join(model, {"--device_memory", "700MiB", "--hardware", "rtx4090"}))
          .exit_code,
      3);
}

TEST(TierPlan, ObeysPlacementAndRefusesWhatIsNone) {
  const Arguments budgets = {"--device_memory", "4GB", "--host_memory", "4GB",
                             "--nvme",          "4GB"};
  const Json json =
      PlanOf(Join(Join(kSmall, budgets), {"--placement", "optimizer=nvme"}), 0);
  EXPECT_EQ(json["plan"]["bytes_by_kind"]["optimizer"]["device"], 0);
  EXPECT_EQ(json["plan"]["bytes_by_kind"]["optimizer"]["host"], 0);
  const ProgramRun run =
      TierPlan(Join(Join(kSmall, budgets), {"--placement", "optimiser=nvme"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("optimiser"), std::string::npos) << run.errors;
}

TEST(TierPlan, ReadsBatchPrecisionAndClippingFromDeepSpeedsJson) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("ds.json", R"({
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3,
    "gradient_clipping": 0.5, "bf16": {"enabled": true}})");
  const Arguments arguments = {
      "--model_name_or_path", "smollm2-135m", "--max_seq_length", "128",
      "--hardware",           "cpu",          "--device_memory",  "4GB",
      "--host_memory",        "4GB",          "--deepspeed",      file};
  const Json json = PlanOf(arguments, 0);
  EXPECT_EQ(json["tokens_per_step"], 2 * 3 * 128);
  EXPECT_EQ(json["micro_batches"], 3);
  EXPECT_EQ(json["dtype"], "bf16");
  EXPECT_EQ(json["max_grad_norm"], 0.5);
  const ProgramRun run = TierPlan(Join(arguments, {"--tokens_per_step", "1000"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("2 rows x 3 micro-batches x 128 tokens make 768"),
            std::string::npos)
      << run.errors;
}

TEST(TierPlan, ReadsConfigJsonOnly) {
  const TemporaryDirectory directory;
  directory.Write("config.json", R"({"model_type": "llama",
    "architectures": ["LlamaForCausalLM"], "vocab_size": 256, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
    "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu"})");
  const Json json =
      PlanOf({"--model_name_or_path", directory.path(), "--hardware", "cpu",
              "--device_memory", "100MB", "--host_memory", "100MB"},
             0);
  // Two of 256x64 for embedding and head; blocks of q, o 64x64, k, v 32x64, mlp
  // 3x128x64, norms 2x64; the last norm.
  EXPECT_EQ(json["parameters"],
            2 * 256 * 64 + 2 * (2 * 4096 + 2 * 2048 + 3 * 8192 + 128) + 64);
  EXPECT_EQ(json["sequence_length"], 128);
}

TEST(TierPlan, TakesAProfileFromAFileOrTheEnvironment) {
  const TemporaryDirectory directory;
  MachineProfile profile = FindKnownMachine("cpu")->profile;
  profile.name = "this one";
  const std::string file = directory.Write("p.json", MachineProfileJson(profile));
  const Arguments model = {
      "--model_name_or_path", "smollm2-135m", "--tokens_per_step", "512",
      "--device_memory",      "4GB",          "--host_memory",     "4GB"};
  EXPECT_EQ(PlanOf(Join(model, {"--hardware", file}), 0)["hardware"]["name"],
            "this one");
  const ProgramRun stored = RunProgram(Join({TIERPLAN}, Join(model, {"--json", "-"})),
                                       {"STRATA_PROFILE=" + file});
  EXPECT_EQ(Json::parse(stored.output, nullptr, false)["hardware"]["source"], file);
  const Json assumed = PlanOf(model, 0);
  EXPECT_NE(assumed["hardware"]["source"].get<std::string>().find("assumed"),
            std::string::npos);
  const std::string broken = directory.Write("broken.json", "{\"name\": \"x\"}");
  const ProgramRun run = TierPlan(Join(model, {"--hardware", broken}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find(broken), std::string::npos) << run.errors;
}

TEST(TierPlan, RefusesBadInputByNameBeforePlanning) {
  const Arguments good = {"--model_name_or_path", "smollm2-135m",
                          "--device_memory",      "4GB",
                          "--host_memory",        "4GB"};
  for (const auto& [arguments, named] : std::vector<std::pair<Arguments, std::string>>{
           {{}, "--model_name_or_path is missing"},
           {{"--model_name_or_path", "smollm2-135m"}, "--device_memory is missing"},
           {{"--model_name_or_path", "smollm2-136m", "--device_memory", "1GB"},
            "did you mean smollm2-135m?"},
           {{"--model_name_or_path", "/nowhere/model", "--device_memory", "1GB"},
            "/nowhere/model"},
           {Join(good, {"--hardware", "h20"}), "did you mean h200?"},
           {Join(good, {"--hardware", "/nowhere/p.json"}), "/nowhere/p.json"},
           {Join(good, {"--max_seq_length", "10000"}), "8192 positions"},
           {Join(good, {"--tokens_per_step", "1000", "--max_seq_length", "512"}),
            "--tokens_per_step is 1000"},
           {Join(good, {"--tokens_per_step", "0"}), "--tokens_per_step is 0"},
           {Join(good, {"--device_memory", "lots"}), "'lots' is not a size"},
           {Join(good, {"--deepspeed", "/nowhere/ds.json"}), "/nowhere/ds.json"},
           {Join(good, {"--device_mem", "1GB"}), "--device_memory"}}) {
    const ProgramRun run = TierPlan(arguments);
    EXPECT_EQ(run.exit_code, 2) << named;
    EXPECT_EQ(run.output, "") << named;
    EXPECT_NE(run.errors.find(named), std::string::npos) << run.errors;
    EXPECT_EQ(run.errors.find("error: "), 0u) << run.errors;
    EXPECT_NE(run.errors.find("\ndo: "), std::string::npos) << run.errors;
    EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 2) << run.errors;
  }
}

TEST(TierPlan, SweepsOverSizesOfDeviceMemory) {
  const Json json = PlanOf(
      Join(kSmall, {"--device_memory", "2GB", "--host_memory", "2GB", "--sweep"}), 0);
  ASSERT_GE(json["sweep"].size(), 5u);
  double before = 1e9;
  for (const Json& row : json["sweep"]) {
    EXPECT_EQ(row["fits"], true);
    EXPECT_LE(row["forecast_seconds"].get<double>(), before * 1.0001);
    before = row["forecast_seconds"];
  }
}

// Once, the search for room for the other plans of the set did not end.
TEST(TierPlan, EndsWhereAnotherPlanOfTheSetNeedsMoreThanTheSteadyOne) {
  const Json json =
      PlanOf({"--model_name_or_path", "tinyllama-1.1b", "--device_memory", "3GiB",
              "--host_memory", "5GB", "--nvme", "20GB", "--hardware", "rtx4090"},
             0);
  EXPECT_LE(json["plan"]["peak_bytes"]["host"], 5000000000);
}

}  // namespace
}  // namespace strata
