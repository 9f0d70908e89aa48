#include "tools/tiertrain/step_log.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/text_file.h"
#include "runtime/base/status.h"
#include "tools/tiertrain/setup.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json LanesOf(const StepReport& report) {
  Json lanes = Json::object();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    lanes[Name(static_cast<Lane>(lane))] = {
        {"busy_seconds", report.lanes[lane].busy_seconds},
        {"bytes", report.lanes[lane].bytes}};
  }
  return lanes;
}

Json StallsOf(const StepReport& report) {
  Json stalls = Json::object();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (static_cast<Lane>(lane) == Lane::kCompute) continue;
    stalls[Name(static_cast<Lane>(lane))] = report.lanes[lane].stall_seconds;
  }
  return stalls;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepLog>> StepLog::Create(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return IoError(errno, absl::StrCat("create --log_file ", path));
  return std::unique_ptr<StepLog>(new StepLog(path, file));
}

absl::StatusOr<std::unique_ptr<StepLog>> StepLog::Continue(const std::string& path,
                                                           int64_t last_step) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Create(path);
  absl::StatusOr<std::string> text = ReadTextFile(path);
  STRATA_RETURN_IF_ERROR(text.status());
  size_t kept = 0, begin = 0;
  for (int64_t number = 1;; ++number) {
    const size_t end = text->find('\n', begin);
    if (end == std::string::npos) break;  // half a line, or nothing
    const Json line = Json::parse(text->begin() + static_cast<ptrdiff_t>(begin),
                                  text->begin() + static_cast<ptrdiff_t>(end), nullptr,
                                  /*allow_exceptions=*/false);
    const auto step = line.is_object() ? line.find("step") : line.end();
    if (!line.is_object() || step == line.end() || !step->is_number_integer()) {
      return WithMend(
          absl::InvalidArgumentError(absl::StrCat("--log_file ", path, ":", number,
                                                  ": this is no step's line")),
          "move the file away, or name another one");
    }
    begin = end + 1;
    if (*step > last_step) break;
    kept = begin;
  }
  if (truncate(path.c_str(), static_cast<off_t>(kept)) != 0) {
    return IoError(errno, absl::StrCat("cut --log_file ", path));
  }
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return IoError(errno, absl::StrCat("open --log_file ", path));
  return std::unique_ptr<StepLog>(new StepLog(path, file));
}

StepLog::~StepLog() { std::fclose(file_); }

absl::Status StepLog::Write(const StepRecord& record, const TrainingRun& run) {
  const StepResult& result = record.result;
  const StepReport& report = result.report;
  const TierBytes bytes = run.trainer->executor().allocated_bytes();
  const Json line = {
      {"step", record.step},
      {"epoch", record.epoch},
      {"loss", Number(result.loss)},
      {"grad_norm", Number(result.grad_norm)},
      {"clipped", result.clipped},
      {"lr", record.learning_rate},
      {"loss_scale", nullptr},
      {"skipped", result.skipped},
      {"tokens", record.tokens},
      {"trained_tokens", result.trained_tokens},
      {"trained_tokens_total", record.trained_tokens_total},
      {"seconds", report.seconds},
      {"tokens_per_second",
       report.seconds > 0 ? Json(static_cast<double>(record.tokens) / report.seconds)
                          : Json(nullptr)},
      {"lanes", LanesOf(report)},
      {"stall_seconds", StallsOf(report)},
      {"device_bytes", bytes.device + (run.cuda ? run.cuda->overhead_bytes() : 0)},
      {"host_bytes", bytes.host},
      {"nvme_bytes", bytes.nvme},
  };
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() ||
      std::fflush(file_) != 0) {
    return IoError(errno, absl::StrCat("write --log_file ", path_));
  }
  return absl::OkStatus();
}

}  // namespace strata
