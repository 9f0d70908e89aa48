#include "tests/support/tiertrain_run.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/hf_checkpoint.h"
#include "model/stored_floats.h"
#include "runtime/base/status.h"

extern char** environ;

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<nlohmann::json> ReadLog(const std::string& path) {
  std::vector<nlohmann::json> steps;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
    EXPECT_TRUE(steps.back().is_object()) << line;
  }
  return steps;
}

}  // namespace

std::vector<double> RunOutcome::Losses() const {
  std::vector<double> losses;
  for (size_t i = 0; i < steps.size(); ++i) losses.push_back(Loss(i));
  return losses;
}

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

RunningTiertrain::RunningTiertrain(pid_t pid, int output, std::string error_file,
                                   std::string log_file)
    : pid_(pid),
      output_(fdopen(output, "r")),
      error_file_(std::move(error_file)),
      log_file_(std::move(log_file)) {
  STRATA_CHECK(output_ != nullptr);
}

RunningTiertrain::~RunningTiertrain() {
  std::fclose(output_);
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool RunningTiertrain::WaitForLine(absl::string_view text) {
  char line[4096];
  while (std::fgets(line, sizeof(line), output_) != nullptr) {
    text_ += line;
    if (absl::StartsWith(line, text)) return true;
  }
  return false;
}

void RunningTiertrain::Signal(int number) const {
  STRATA_CHECK(pid_ != 0 && kill(pid_, number) == 0);
}

bool RunningTiertrain::Collect(int options) {
  if (pid_ == 0) return true;
  int status = 0;
  rusage usage{};
  const pid_t ended = wait4(pid_, &status, options, &usage);
  STRATA_CHECK(ended >= 0);
  if (ended == 0) return false;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  peak_resident_bytes_ = usage.ru_maxrss * kKiB;
  pid_ = 0;
  return true;
}

bool RunningTiertrain::HasEnded() { return Collect(WNOHANG); }

RunOutcome RunningTiertrain::Finish() {
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), output_)) {
    text_.append(buffer, count);
  }
  Collect(0);
  RunOutcome outcome{.exit_code = exit_code_, .errors = Slurp(error_file_)};
  outcome.output = text_ + outcome.errors;
  outcome.steps = ReadLog(log_file_);
  outcome.peak_resident_bytes = peak_resident_bytes_;
  return outcome;
}

TiertrainRun::TiertrainRun(const TransformerConfig& config, int shards) {
  STRATA_CHECK(WriteFixture(model(), config, shards).ok());
}

RunningTiertrain TiertrainRun::Start(const RunRequest& request) const {
  std::string rows;
  for (const std::string& row : request.rows) rows += row + "\n";
  inputs_.Write("data.jsonl", rows);
  std::string command = absl::StrCat(
      STRATA_TIERTRAIN, " --model_name_or_path ", model(), " --train_file ", data(),
      " --deepspeed ", inputs_.Write("ds.json", request.deepspeed.dump()),
      " --lr_scheduler_type constant --shuffle=false --device cpu --threads 1",
      " --logging_steps 1 --output_dir ", output(), " --log_file ", log());
  for (const char* flag : {" --device_memory ", " --host_memory "}) {
    if (absl::StrContains(request.flags, absl::StripAsciiWhitespace(flag))) continue;
    absl::StrAppend(&command, flag, "64MiB");
  }
  absl::StrAppend(&command, " ", request.flags);
  std::vector<std::string> arguments = absl::StrSplit(command, ' ', absl::SkipEmpty());
  arguments.insert(arguments.end(), request.arguments.begin(), request.arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);

  int output[2];
  STRATA_CHECK(pipe2(output, O_CLOEXEC) == 0);
  const std::string errors = inputs_.File("errors");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  STRATA_CHECK(error == 0);
  return RunningTiertrain(pid, output[0], errors, log());
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

std::string TiertrainRun::ExportedBytes() const {
  return Slurp(output() + "/model.safetensors");
}

std::vector<std::string> TiertrainRun::List() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory_.path())) {
    names.push_back(entry.path().lexically_relative(directory_.path()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void ExpectRefused(const TiertrainRun& run, const RunRequest& request,
                   const std::vector<std::string>& named) {
  const std::vector<std::string> before = run.List();
  const RunOutcome outcome = run.Run(request);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.errors, "\ndo: ")) << outcome.errors;
  for (const std::string& name : named) {
    EXPECT_TRUE(absl::StrContains(outcome.errors, name))
        << name << " is not in: " << outcome.errors;
  }
  EXPECT_EQ(run.List(), before) << outcome.output;
}

void ExpectNear(double actual, double expected, double tolerance) {
  EXPECT_NEAR(actual, expected, std::abs(expected) * tolerance);
}

void ExpectLosses(const RunOutcome& outcome, const std::vector<double>& losses,
                  double tolerance) {
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  ASSERT_EQ(outcome.steps.size(), losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    ExpectNear(outcome.Loss(i), losses[i], tolerance);
  }
}

std::string PlacedIn(const TiertrainRun& run, absl::string_view tier) {
  return absl::StrCat(" --placement weights=", tier, ",optimizer=", tier,
                      ",gradients=", tier, ",activations=", tier, " --nvme_path ",
                      run.directory().File("swap"), ":64MiB");
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

std::vector<std::string> Sequences(int first, int count, int64_t length) {
  std::vector<std::string> rows;
  for (int s = first; s < first + count; ++s) rows.push_back(Row(Seq(s, length)));
  return rows;
}

}  // namespace strata
