#include "tests/support/tiertrain_run.h"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "model/hf_checkpoint.h"
#include "model/stored_floats.h"
#include "runtime/base/status.h"

namespace strata {

nlohmann::json RunRequest::BaseConfig() {
  return {
      {"train_micro_batch_size_per_gpu", 1},
      {"gradient_accumulation_steps", 1},
      {"optimizer",
       {{"type", "AdamW"},
        {"params",
         {{"lr", 1e-3}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0}}}}},
      {"gradient_clipping", 0},
      {"zero_optimization", {{"stage", 0}}}};
}

TiertrainRun::TiertrainRun(const TransformerConfig& config, int shards) {
  STRATA_CHECK(WriteFixture(model(), config, shards).ok());
}

RunOutcome TiertrainRun::Run(const RunRequest& request) const {
  std::string rows;
  for (const std::string& row : request.rows) rows += row + "\n";
  const std::string data = directory_.Write("data.jsonl", rows);
  const std::string config = directory_.Write("ds.json", request.deepspeed.dump());
  const std::string log = directory_.File("log.jsonl");
  const std::string command =
      std::string(STRATA_TIERTRAIN) + " --model_name_or_path " + model() +
      " --train_file " + data + " --deepspeed " + config +
      " --lr_scheduler_type constant --shuffle=false --device cpu --threads 1"
      " --device_memory 64MiB --host_memory 64MiB --output_dir " +
      output() + " --log_file " + log + " " + request.flags + " 2>&1";
  RunOutcome outcome;
  std::FILE* const pipe = popen(command.c_str(), "r");
  STRATA_CHECK(pipe != nullptr);
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    outcome.output.append(buffer, count);
  }
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    outcome.steps.push_back(nlohmann::json::parse(line));
  }
  return outcome;
}

std::map<std::string, std::vector<float>> TiertrainRun::Exported() const {
  std::map<std::string, std::vector<float>> tensors;
  const auto checkpoint = HfCheckpoint::Open(output());
  STRATA_CHECK(checkpoint.ok());
  for (const auto& [name, source] : (*checkpoint)->tensors()) {
    std::vector<float>& values = tensors[name];
    values.resize(static_cast<size_t>(source.info->element_count()));
    STRATA_CHECK(ReadFloats(*source.file, *source.info, 0, values).ok());
  }
  return tensors;
}

std::string Row(const std::vector<int32_t>& tokens, const std::vector<int32_t>& labels,
                const std::vector<int32_t>& document_lengths) {
  nlohmann::json row = {{"input_ids", tokens}};
  if (!labels.empty()) row["labels"] = labels;
  if (!document_lengths.empty()) row["document_lengths"] = document_lengths;
  return row.dump();
}

std::vector<int32_t> Seq(int sequence, int64_t length) {
  return FixtureSequence(sequence, length, FixtureT0().vocab);
}

}  // namespace strata
