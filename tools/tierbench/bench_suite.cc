#include "tools/tierbench/bench_suite.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda_device.h"
#include "tools/machine/find_profile.h"
#include "tools/tierbench/bench_facts.h"
#include "tools/tierbench/compare_fio.h"
#include "tools/tierbench/copy_bench.h"
#include "tools/tierbench/copy_load.h"
#include "tools/tierbench/host_bench.h"
#include "tools/tierbench/kernel_bench.h"
#include "tools/tierbench/nvme_device_bench.h"
#include "tools/tierbench/store_bench.h"

namespace strata {
namespace {

constexpr int64_t kCopyBytes = 64 * kMiB;
/// Of an update on a card, and where a short run is asked for.
constexpr int64_t kCudaParameters = int64_t{100} << 20;
constexpr int64_t kShortParameters = int64_t{4} << 20;

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& wanted) {
  if (wanted != "cpu") {
    absl::StatusOr<std::unique_ptr<Device>> cuda = CreateCudaDevice(0);
    if (cuda.ok() || wanted == "cuda") return cuda;
  }
  constexpr int64_t kUnlimited = int64_t{1} << 60;
  return CreateCpuDevice({.device_bytes = kUnlimited, .pinned_host_bytes = kUnlimited});
}

}  // namespace

BenchSuite::BenchSuite(BenchCommand command, const Stop& stop,
                       std::function<void(const std::string&)> show)
    : command_(std::move(command)), stop_(stop), show_(std::move(show)) {
  if (command_.loops) {
    budget_ = {.loops = static_cast<int>(*command_.loops), .loop_seconds = 0.05};
  }
}

absl::Status BenchSuite::Prepare() {
  const SystemView system = SystemView::OfThisMachine();
  threads_ = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  report_.command_line = command_.typed;
  AddHostFacts(system, report_);
  STRATA_ASSIGN_OR_RETURN(device_, OpenDevice(command_.device));
  facts_.machine = MachineName(system);
  facts_.device = std::string(device_->name());
  if (device_->kind() == DeviceKind::kCuda) {
    report_.gpus.push_back({{"index", 0}, {"name", facts_.device}});
  }
  return absl::OkStatus();
}

absl::Status BenchSuite::Run() {
  if (command_.tunes()) STRATA_RETURN_IF_ERROR(RunSweep());
  if (command_.tunes() && !command_.measures_all()) return absl::OkStatus();
  if (command_.sustained) return RunSustained();
  show_(TableHead());
  if (command_.compare) return RunComparison();
  if (command_.path == "nvme-device") return RunNvmeDevice();
  STRATA_RETURN_IF_ERROR(RunDisk());
  if (Wants("swap")) STRATA_RETURN_IF_ERROR(RunStore());
  if (command_.measures_all()) STRATA_RETURN_IF_ERROR(RunHost());
  STRATA_RETURN_IF_ERROR(RunLinks());
  if (!command_.measures_all()) return absl::OkStatus();
  STRATA_RETURN_IF_ERROR(RunCompute());
  STRATA_ASSIGN_OR_RETURN(const MachineProfile profile, MakeProfile(report_, facts_));
  report_.plan = PlanJson(profile);
  return absl::OkStatus();
}

bool BenchSuite::Wants(const char* op) const {
  if (command_.op) return *command_.op == op;
  return WantsPath("nvme-host");
}

bool BenchSuite::WantsPath(const char* path) const {
  if (command_.path) return *command_.path == path;
  return !command_.op;
}

void BenchSuite::Add(Phase phase) {
  report_.phases.push_back(std::move(phase));
  has_begun_ = true;
  show_(TableRow(report_.phases.back()));
}

absl::Status BenchSuite::RunDisk() {
  if (!Wants("read") && !Wants("write") && !Wants("mixed")) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<DiskBench> bench,
                          DiskBench::Create(command_.disk, stop_));
  has_begun_ = true;
  AddDiskFacts(SystemView::OfThisMachine(), *bench, report_);
  for (const auto& [name, op] :
       {std::pair("read", DiskOp::kRead), std::pair("write", DiskOp::kWrite),
        std::pair("mixed", DiskOp::kMixed)}) {
    if (!Wants(name)) continue;
    STRATA_ASSIGN_OR_RETURN(Phase phase, bench->Measure(op, stop_));
    Add(std::move(phase));
  }
  AddDiskChecks(*bench, report_);
  if (!command_.measures_all()) return absl::OkStatus();
  absl::StatusOr<Phase> shared = bench->MeasureShared(stop_);
  if (shared.ok()) {
    Add(*std::move(shared));
  } else if (absl::IsCancelled(shared.status())) {
    return shared.status();
  } else {
    report_.checks.push_back(
        {"shared_memory", Check::Status::kWarn,
         absl::StrCat("nothing was staged in /dev/shm: ", shared.status().message())});
  }
  return absl::OkStatus();
}

absl::Status BenchSuite::RunSweep() {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<DiskBench> bench,
                          DiskBench::Create(command_.disk, stop_));
  has_begun_ = true;
  const SweepKind kind =
      command_.sweep == "full" ? SweepKind::kFull : SweepKind::kQuick;
  if (command_.sweep) show_(SweepHead());
  STRATA_ASSIGN_OR_RETURN(const std::vector<SweepPoint> points,
                          Sweep(*bench, kind, stop_, [this](const SweepPoint& point) {
                            if (command_.sweep) show_(SweepRow(point));
                          }));
  const SweepPoint choice = ChoosePoint(points);
  report_.tuned = TunedJson(choice, points);
  facts_.chunk_bytes = choice.chunk_bytes;
  facts_.window_bytes = choice.window_bytes;
  command_.UseTuned(choice);
  show_(TunedText(choice));
  if (command_.measures_all()) return absl::OkStatus();
  AddDiskFacts(SystemView::OfThisMachine(), *bench, report_);
  AddDiskChecks(*bench, report_);
  return absl::OkStatus();
}

absl::Status BenchSuite::RunSustained() {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<DiskBench> bench,
                          DiskBench::Create(command_.disk, stop_));
  has_begun_ = true;
  AddDiskFacts(SystemView::OfThisMachine(), *bench, report_);
  show_(TableHead());
  STRATA_ASSIGN_OR_RETURN(Phase phase,
                          MeasureSustained(*bench, command_.sustained_limit, stop_));
  Add(std::move(phase));
  AddDiskChecks(*bench, report_);
  return absl::OkStatus();
}

absl::Status BenchSuite::RunNvmeDevice() {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<StoreBench> bench,
                          StoreBench::Create(command_.disk, stop_));
  has_begun_ = true;
  for (const auto& [name, way] :
       {std::pair("read", Way::kToDevice), std::pair("write", Way::kToNvme)}) {
    if (command_.op && *command_.op != name) continue;
    STRATA_ASSIGN_OR_RETURN(
        Phase phase,
        MeasureNvmeDevice(*bench, *device_, way,
                          budget_.loops * 5 * budget_.loop_seconds, stop_));
    Add(std::move(phase));
  }
  return absl::OkStatus();
}

absl::Status BenchSuite::RunComparison() {
  STRATA_ASSIGN_OR_RETURN(const std::string version, FioVersion(stop_));
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<DiskBench> bench,
                          DiskBench::Create(command_.disk, stop_));
  has_begun_ = true;
  AddDiskFacts(SystemView::OfThisMachine(), *bench, report_);
  const bool is_given = command_.chunk || command_.inflight;
  const OurSetting setting = is_given ? OurSetting::kGiven : OurSetting::kBest;
  report_.comparison = {{"with", version},
                        {"results", nlohmann::ordered_json::array()}};
  for (const auto& [name, op] :
       {std::pair("read", DiskOp::kRead), std::pair("write", DiskOp::kWrite)}) {
    if (command_.op && *command_.op != name) continue;
    STRATA_ASSIGN_OR_RETURN(Phase phase, bench->Measure(op, stop_));
    Add(std::move(phase));
    STRATA_ASSIGN_OR_RETURN(const FioComparison comparison,
                            CompareWithFio(*bench, op, setting, stop_));
    report_.comparison["results"].push_back(ComparisonJson(comparison));
    text_ += ComparisonText(comparison, version);
  }
  AddDiskChecks(*bench, report_);
  return absl::OkStatus();
}

absl::Status BenchSuite::RunStore() {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<StoreBench> bench,
                          StoreBench::Create(command_.disk, stop_));
  has_begun_ = true;
  for (const DiskOp op : {DiskOp::kRead, DiskOp::kWrite, DiskOp::kMixed}) {
    if (op != DiskOp::kMixed && !command_.measures_all()) continue;
    STRATA_ASSIGN_OR_RETURN(Phase phase, bench->Measure(op, stop_));
    Add(std::move(phase));
  }
  return absl::OkStatus();
}

absl::Status BenchSuite::RunHost() {
  STRATA_ASSIGN_OR_RETURN(Phase copy, MeasureHostCopy(budget_, stop_));
  Add(std::move(copy));
  STRATA_ASSIGN_OR_RETURN(Phase memory, MeasureHostMemory(threads_, budget_, stop_));
  Add(std::move(memory));
  return RunUpdates();
}

absl::Status BenchSuite::RunUpdates() {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<Device> cpu, OpenDevice("cpu"));
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<KernelBench> kernels,
                          KernelBench::Create(*cpu, threads_));
  TimeBudget budget = budget_;
  budget.loops = std::min(budget.loops, 3);
  const int64_t parameters = command_.loops ? kShortParameters : UncachedParameters();
  for (const bool advances : {false, true}) {
    STRATA_ASSIGN_OR_RETURN(
        Phase phase,
        kernels->MeasureUpdate({.parameters = parameters, .advances = advances}, budget,
                               stop_));
    Add(std::move(phase));
  }
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<CopyLoad> load,
                          CopyLoad::Start(*device_));
  STRATA_ASSIGN_OR_RETURN(
      Phase busy, kernels->MeasureUpdate({.parameters = parameters, .load = load.get()},
                                         budget, stop_));
  busy.name = "cpu_update_busy";
  busy.label = "CPU AdamW update while both copies run";
  facts_.busy_host_memory =
      busy.rate.median + 1e9 * busy.params["copies_gbps"].get<double>();
  Add(std::move(busy));
  return absl::OkStatus();
}

absl::Status BenchSuite::RunLinks() {
  for (const auto& [name, path] : {std::pair("host-device", LinkPath::kHostToDevice),
                                   std::pair("device-host", LinkPath::kDeviceToHost),
                                   std::pair("both", LinkPath::kBoth)}) {
    if (!WantsPath(name)) continue;
    STRATA_ASSIGN_OR_RETURN(Phase phase,
                            MeasureLink(*device_, path, kCopyBytes, budget_, stop_));
    if (device_->kind() == DeviceKind::kCpu) {
      phase.label += " (the CPU as device)";
    }
    Add(std::move(phase));
  }
  return absl::OkStatus();
}

absl::Status BenchSuite::RunCompute() {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<KernelBench> kernels,
                          KernelBench::Create(*device_, threads_));
  const bool is_cpu = device_->kind() == DeviceKind::kCpu;
  const KernelShapes shapes = is_cpu ? KernelShapes::ForCpu() : KernelShapes::ForCuda();
  if (!is_cpu) {
    for (const bool advances : {false, true}) {
      STRATA_ASSIGN_OR_RETURN(
          Phase update,
          kernels->MeasureUpdate({.parameters = kCudaParameters, .advances = advances},
                                 budget_, stop_));
      Add(std::move(update));
    }
  }
  STRATA_ASSIGN_OR_RETURN(std::vector<Phase> matmuls,
                          kernels->MeasureMatmuls(shapes, budget_, stop_));
  for (Phase& phase : matmuls) Add(std::move(phase));
  STRATA_ASSIGN_OR_RETURN(std::vector<Phase> attention,
                          kernels->MeasureAttention(shapes, budget_, stop_));
  for (Phase& phase : attention) Add(std::move(phase));
  STRATA_ASSIGN_OR_RETURN(facts_.op_overhead_seconds, kernels->MeasureOverhead(stop_));
  facts_.device_overhead_bytes = device_->overhead_bytes();
  return absl::OkStatus();
}

}  // namespace strata
