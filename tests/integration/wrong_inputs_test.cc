// A table of what people get wrong: each ends with exit code 2, a message that names
// the flag, key, line, tensor or budget, what to do, and nothing left behind.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<std::string> TwoRows() { return {Row(Seq(0)), Row(Seq(1))}; }

// ---- Flags.

struct WrongFlags {
  const char* flags;
  std::vector<std::string> named;
};

TEST(WrongInputs, Flags) {
  const TiertrainRun run;
  const std::vector<WrongFlags> table = {
      {"--max_steps 0", {"max_steps", "0"}},
      {"--max_steps -3", {"max_steps", "-3"}},
      {"--max_steps many", {"max_steps", "many"}},
      {"--max_steps 1e30", {"max_steps", "1e30"}},
      {"--max_steps", {"max_steps"}},
      {"--num_train_epochs 0", {"num_train_epochs"}},
      {"--num_train_epochs nan", {"num_train_epochs", "nan"}},
      {"--per_device_train_batch_size 0", {"per_device_train_batch_size"}},
      {"--gradient_accumulation_steps 0", {"gradient_accumulation_steps"}},
      {"--gradient_accumulation_steps 2", {"gradient_accumulation_steps", "1", "2"}},
      {"--learning_rate -1e-4", {"learning_rate", "-1e-4"}},
      {"--learning_rate inf", {"learning_rate", "inf"}},
      {"--learning_rate 2e-5", {"learning_rate", "lr"}},
      {"--lr_scheduler_type polynomial", {"lr_scheduler_type", "polynomial", "linear"}},
      {"--warmup_steps -1", {"warmup_steps"}},
      {"--warmup_ratio 1.5", {"warmup_ratio", "1.5"}},
      {"--weight_decay -0.1", {"weight_decay"}},
      {"--max_grad_norm -1", {"max_grad_norm"}},
      {"--adam_beta1 1", {"beta1"}},
      {"--adam_beta2 1.5", {"beta2"}},
      {"--adam_epsilon -1", {"epsilon"}},
      {"--max_seq_length 1", {"max_seq_length"}},
      {"--max_seq_length 0", {"max_seq_length"}},
      {"--seed -1", {"seed"}},
      {"--logging_steps 0", {"logging_steps"}},
      {"--eval_steps 0", {"eval_steps"}},
      {"--device tpu", {"device", "tpu", "cuda"}},
      {"--device_memory 24GX", {"device_memory", "24GX"}},
      {"--device_memory -1GiB", {"device_memory", "-1GiB"}},
      {"--device_memory 0", {"device_memory"}},
      {"--host_memory lots", {"host_memory", "lots"}},
      {"--host_memory 4KiB", {"host_memory"}},
      {"--device_memory 4KiB", {"device"}},
      {"--placement optimizer", {"placement", "optimizer"}},
      {"--placement optimizer=disk", {"placement", "disk", "nvme"}},
      {"--placement optimiser=host", {"optimiser", "optimizer"}},
      {"--placement weights=nvme", {"nvme_path"}},
      {"--io_backend spdk --nvme_path /tmp", {"io_backend", "spdk", "io_uring"}},
      {"--nvme_path /proc/strata", {"/proc/strata"}},
      {"--threads -1", {"threads"}},
      {"--threads 5000", {"threads", "1024"}},
      {"--save_steps 0", {"save_steps"}},
      {"--save_total_limit 0 --save_steps 1", {"save_total_limit"}},
      {"--resume_from_checkpoint /nowhere", {"/nowhere"}},
      {"--numerics /nowhere.json", {"/nowhere.json"}},
      {"--autotune", {"autotune", "numerics"}},
      {"--train_file /nowhere.jsonl", {"/nowhere.jsonl"}},
      {"--eval_file /nowhere.jsonl", {"/nowhere.jsonl"}},
      {"--model_name_or_path /nowhere", {"/nowhere"}},
      {"--deepspeed /nowhere.json", {"/nowhere.json"}},
      {"--log_file /nowhere/log.jsonl", {"/nowhere/log.jsonl"}},
      {"--timeline /nowhere/t.json", {"/nowhere/t.json"}},
      {"--synthetic_data", {"synthetic_data", "train_file"}},
      {"--generate /nowhere.jsonl", {"generate"}},
      {"--fp16 --bf16", {"fp16"}},
      {"--bf16 perhaps", {"bf16", "perhaps"}},
      {"--shuffle maybe", {"shuffle", "maybe"}},
      {"--batch_size 8", {"batch_size", "per_device_train_batch_size"}},
      {"stray", {"stray"}},
  };
  for (const WrongFlags& wrong : table) {
    SCOPED_TRACE(wrong.flags);
    ExpectRefused(run, {.rows = TwoRows(), .flags = wrong.flags}, wrong.named);
  }
}

// ---- The DeepSpeed JSON: a change to a right one.

struct WrongConfig {
  const char* patch;  // merged into the base case
  std::vector<std::string> named;
};

TEST(WrongInputs, DeepSpeedKeys) {
  const TiertrainRun run;
  const std::vector<WrongConfig> table = {
      {R"({"train_micro_batch_size_per_gpu": 0})", {"train_micro_batch_size_per_gpu"}},
      {R"({"train_micro_batch_size_per_gpu": "two"})",
       {"train_micro_batch_size_per_gpu", "two"}},
      {R"({"train_batch_size": 7})", {"train_batch_size", "7"}},
      {R"({"gradient_accumulation_steps": 0})", {"gradient_accumulation_steps"}},
      {R"({"optimizer": {"params": {"eps": -1e-8}}})", {"eps"}},
      {R"({"bf16": {"enabled": "perhaps"}})", {"bf16", "perhaps"}},
      {R"({"gradient_clipping": -1})", {"gradient_clipping", "-1"}},
      {R"({"gradient_clipping": true})", {"gradient_clipping"}},
      {R"({"optimizer": {"type": "LAMB"}})", {"optimizer.type", "LAMB", "AdamW"}},
      {R"({"optimizer": {"params": {"lr": -1}}})", {"lr", "-1"}},
      {R"({"optimizer": {"params": {"betas": [0.9]}}})", {"betas"}},
      {R"({"optimizer": {"params": {"betas": [0.9, 1.0]}}})", {"betas", "1"}},
      {R"({"scheduler": {"type": "OneCycle"}})", {"scheduler", "OneCycle"}},
      {R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})", {"fp16", "bf16"}},
      {R"({"zero_optimization": {"stage": 4}})", {"stage", "4"}},
      {R"({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}})",
       {"offload_optimizer", "nvme_path"}},
      {R"({"zero_optimization": {"offload_optimizer": {"device": "gpu"}}})",
       {"offload_optimizer", "gpu"}},
      {R"({"zero_optimisation": {"stage": 3}})",
       {"zero_optimisation", "zero_optimization"}},
  };
  for (const WrongConfig& wrong : table) {
    SCOPED_TRACE(wrong.patch);
    RunRequest request{.rows = TwoRows(), .flags = "--max_steps 1"};
    request.deepspeed.merge_patch(Json::parse(wrong.patch));
    ExpectRefused(run, request, wrong.named);
  }
}

TEST(WrongInputs, DeepSpeedTexts) {
  const TiertrainRun run;
  const std::vector<std::pair<const char*, std::vector<std::string>>> table = {
      {"", {"ds.json"}},
      {"{", {"ds.json"}},
      {"[]", {"ds.json"}},
      {R"({"bf16": {"enabled": true}} trailing)", {"ds.json"}},
  };
  for (const auto& [text, named] : table) {
    SCOPED_TRACE(text);
    const TemporaryDirectory directory;
    const std::string file = directory.Write("ds.json", text);
    ExpectRefused(run, {.rows = TwoRows(), .flags = "--deepspeed " + file}, named);
  }
}

// ---- Data: rows of the .jsonl.

TEST(WrongInputs, Rows) {
  const TiertrainRun run;
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"not json", {"data.jsonl:2"}},
      {"[1, 2, 3]", {"data.jsonl:2"}},
      {"{}", {"data.jsonl:2", "input_ids"}},
      {R"({"input_ids": "1 2 3"})", {"data.jsonl:2", "input_ids"}},
      {R"({"input_ids": [1, -2, 3]})", {"data.jsonl:2", "-2"}},
      {R"({"input_ids": [1, 2.5, 3]})", {"data.jsonl:2", "2.5"}},
      {R"({"input_ids": [1, 2, 3], "labels": [1, 2]})", {"data.jsonl:2", "labels"}},
      {R"({"input_ids": [1, 2, 3], "labels": [1, 2, 4000]})", {"data.jsonl:2", "4000"}},
      {R"({"input_ids": [1, 2, 3], "document_lengths": [2]})",
       {"data.jsonl:2", "document_lengths"}},
      {R"({"input_ids": [1, 2, 3], "document_lengths": [3, 0]})",
       {"data.jsonl:2", "document_lengths"}},
  };
  for (const auto& [row, named] : table) {
    SCOPED_TRACE(row);
    ExpectRefused(run, {.rows = {Row(Seq(0)), row}, .flags = "--max_steps 1"}, named);
  }
}

// ---- The model: a change to a right config.json.

TEST(WrongInputs, ModelConfigs) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> table = {
      {R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})", {"gpt2"}},
      {R"({"hidden_size": null})", {"config.json", "hidden_size"}},
      {R"({"hidden_size": "32"})", {"config.json", "hidden_size"}},
      {R"({"num_hidden_layers": 0})", {"config.json", "num_hidden_layers"}},
      {R"({"num_attention_heads": 3})", {"num_attention_heads"}},
      {R"({"num_key_value_heads": 3})", {"num_key_value_heads"}},
      {R"({"vocab_size": -1})", {"vocab_size"}},
      {R"({"rms_norm_eps": 0})", {"rms_norm_eps"}},
      {R"({"rope_theta": -1})", {"rope_theta"}},
      {R"({"hidden_act": "gelu"})", {"hidden_act", "gelu"}},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})", {"yarn"}},
      {R"({"quantization_config": {"bits": 4}})", {"quantization_config"}},
  };
  for (const auto& [patch, named] : table) {
    SCOPED_TRACE(patch);
    const TiertrainRun run;
    Json config = Json::parse(FixtureConfigJson(FixtureT0()));
    config.merge_patch(Json::parse(patch));
    std::ofstream(run.model() + "/config.json") << config.dump();
    ExpectRefused(run, {.rows = TwoRows(), .flags = "--max_steps 1"}, named);
  }
}

TEST(WrongInputs, ModelFiles) {
  using Break = std::function<void(const std::string&)>;
  const std::vector<std::pair<Break, std::vector<std::string>>> table = {
      {[](const std::string& model) { fs::remove(model + "/config.json"); },
       {"config.json"}},
      {[](const std::string& model) { fs::remove(model + "/model.safetensors"); },
       {"safetensors"}},
      {[](const std::string& model) {
         fs::resize_file(model + "/model.safetensors", 100);
       },
       {"model.safetensors"}},
      {[](const std::string& model) {
         fs::resize_file(model + "/model.safetensors", 0);
       },
       {"model.safetensors"}},
      {[](const std::string& model) {
         std::ofstream(model + "/config.json") << "{\"hidden_size\": 32";
       },
       {"config.json"}},
      {[](const std::string& model) {
         fs::remove(model + "/model.safetensors");
         fs::create_directory(model + "/model.safetensors");
       },
       {"model.safetensors"}},
  };
  for (size_t i = 0; i < table.size(); ++i) {
    SCOPED_TRACE(i);
    const TiertrainRun run;
    table[i].first(run.model());
    ExpectRefused(run, {.rows = TwoRows(), .flags = "--max_steps 1"}, table[i].second);
  }
}

}  // namespace
}  // namespace strata
