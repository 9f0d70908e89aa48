#include "tools/tierbench/bench_command.h"

#include <absl/strings/str_cat.h>
#include <sys/stat.h>

#include <algorithm>

#include "runtime/base/size.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

absl::Status Refuse(absl::string_view what, absl::string_view mend) {
  return WithMend(absl::InvalidArgumentError(what), mend);
}

/// A path that is there and is no directory is a mistake of the command line.
absl::Status CheckDirectories(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    struct stat found;
    const bool is_there = stat(directory.c_str(), &found) == 0;
    if (!directory.empty() && (!is_there || S_ISDIR(found.st_mode))) continue;
    return Refuse(absl::StrCat("--dir '", directory, "' is not a directory"),
                  "give it a directory on the drive to measure");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchCommand::CheckModes() const {
  const bool has_drive_op = op.has_value();
  const bool takes_op = !path || *path == "nvme-host" || *path == "nvme-device";
  if (has_drive_op && !takes_op) {
    return Refuse(absl::StrCat("--op ", *op, " is of a drive, and --path is ", *path),
                  "leave one of them out");
  }
  if (path == "nvme-device" && has_drive_op && *op != "read" && *op != "write") {
    return Refuse(
        absl::StrCat("--path nvme-device takes --op read or write, not ", *op),
        "leave --op out for both, one after the other");
  }
  const int modes = compare.has_value() + sustained.has_value() + tunes();
  if (modes > 1) {
    return Refuse(
        "--compare, --sustained and --tune or --sweep are measurements of "
        "their own",
        "give one of them at a time");
  }
  const bool is_compared = !op || *op == "read" || *op == "write";
  if (compare && (!is_compared || path)) {
    return Refuse("--compare fio takes --op read or write, or neither for both",
                  "leave the other --op or --path out");
  }
  if (compare && direct == "off") {
    return Refuse("--compare fio with --direct off would compare page caches",
                  "leave one of them out");
  }
  if ((sustained || tunes()) && (op || path)) {
    return Refuse("--sustained, --tune and --sweep choose the operations themselves",
                  "leave --op and --path out");
  }
  if (tunes() && (chunk || inflight)) {
    return Refuse("--tune and --sweep try chunks and windows",
                  "leave --chunk and --inflight out");
  }
  if (save_profile && !measures_all()) {
    return Refuse("--save_profile: a profile needs everything measured",
                  "leave --op, --path, --compare, --sustained and --sweep out");
  }
  return absl::OkStatus();
}

void BenchCommand::UseTuned(const SweepPoint& choice) {
  disk.chunk_bytes = choice.chunk_bytes;
  disk.window_bytes = choice.window_bytes;
  disk.registers_memory = choice.registers_memory;
}

absl::Status BenchCommand::Finish() {
  STRATA_RETURN_IF_ERROR(CheckDirectories(directories));
  STRATA_RETURN_IF_ERROR(CheckModes());
  if (sustained) {
    STRATA_ASSIGN_OR_RETURN(sustained_limit, ParseSustained(*sustained));
  }
  disk.directories = directories.empty() ? std::vector<std::string>{"."} : directories;
  if (shard_size) disk.shard_bytes = shard_size->bytes;
  if (chunk) disk.chunk_bytes = chunk->bytes;
  if (inflight) disk.window_bytes = inflight->bytes;
  if (tunes()) disk.window_bytes = kSweepWindowBytes;  // the largest that is tried
  if (chunk && !inflight) {
    disk.window_bytes = std::max(disk.window_bytes, 4 * disk.chunk_bytes);
  }
  if (total) {
    disk.total_bytes = total->bytes;
    disk.fill_seconds_max = 0;
  } else {
    const auto drives = static_cast<int64_t>(disk.directories.size());
    disk.total_bytes =
        std::max({disk.total_bytes, drives * 2 * disk.shard_bytes,
                  drives * 4 * std::max(disk.window_bytes, disk.chunk_bytes)});
  }
  if (loops) {
    disk.loops = static_cast<int>(*loops);
    disk.loop_seconds = 0;
  }
  STRATA_ASSIGN_OR_RETURN(disk.backend, ParseIoBackend(io_backend));
  disk.direct = direct == "on" ? DirectIo::kOn : DirectIo::kOff;
  disk.pages = pages == "4k"    ? Pages::kSmall
               : pages == "shm" ? Pages::kShared
                                : Pages::kHuge;
  disk.verifies = verify;
  return CheckDiskSettings(disk);
}

cli::Flags BenchFlagTable(BenchCommand& c) {
  cli::Flags flags(
      "tierbench",
      "Measures what moves between nvme, host memory and the device, and what "
      "computes: everything this machine has in under a minute, or one operation in "
      "detail. Works in a directory of its own and leaves nothing behind. GB is 10^9 "
      "bytes, GiB 2^30.",
      {"tierbench --dir /mnt/nvme", "tierbench --dir /mnt/nvme --save_profile",
       "tierbench --dir /mnt/nvme --op read --shard_size 64MiB --json read.json"});
  flags.BeginGroup("What to measure");
  flags.Add(
      "dir", &c.directories,
      {.value = "DIR",
       .help = "directory on the drive to measure; repeat it to use several at once",
       .absent = "the current directory"});
  flags.Add("op", &c.op,
            {.value = "OP",
             .help = "only this on the drives: read, write, mixed (both at once), or "
                     "swap (through the nvme tier with its checksums)",
             .absent = "everything",
             .choices = {"read", "write", "mixed", "swap"}});
  flags.Add(
      "path", &c.path,
      {.value = "PATH",
       .help = "only this path: nvme-host, host-device, device-host, both "
               "(directions of the link at once), or nvme-device (through host "
               "memory; --op read or write)",
       .absent = "everything",
       .choices = {"nvme-host", "host-device", "device-host", "both", "nvme-device"}});
  flags.Add("device", &c.device,
            {.value = "D",
             .help = "what computes: a card, the CPU, or a card if there is one",
             .choices = {"auto", "cpu", "cuda"}});
  flags.Add(
      "compare", &c.compare,
      {.value = "fio",
       .help = "our engine against fio's best setting on the same files, in "
               "interleaved rounds, with the 95 % interval of the ratio; needs fio",
       .absent = "no comparison",
       .choices = {"fio"}});
  flags.Add("tune", &c.tune,
            {.help = "find the chunk and the window that the drives are fastest with; "
                     "with --save_profile, training takes them from there"});
  flags.Add(
      "sweep", &c.sweep,
      {.value = "quick|full",
       .help = "the same, and show all that was tried: 11 points in 10 s, or 78 in "
               "two minutes",
       .absent = "no sweep",
       .choices = {"quick", "full"}});
  flags.Add("sustained", &c.sustained,
            {.value = "TIME|SIZE",
             .help = "write for so many seconds (600) or bytes (200GB) and find where "
                     "the drive's fast cache ends; wears the drive",
             .absent = "no long write"});
  flags.BeginGroup("How");
  flags.Add("shard_size", &c.shard_size,
            {.value = "SIZE",
             .help = "bytes whose latency is taken together, as training moves them",
             .absent = "32MiB"});
  flags.Add("total", &c.total,
            {.value = "SIZE",
             .help = "data on all drives together, written first",
             .absent = "1GiB, less if that takes over 5 s"});
  flags.Add("chunk", &c.chunk,
            {.value = "SIZE", .help = "one request of the kernel", .absent = "2MiB"});
  flags.Add("inflight", &c.inflight,
            {.value = "SIZE",
             .help = "requested at once from each drive",
             .absent = "16MiB"});
  flags.Add(
      "io_backend", &c.io_backend,
      {.value = "NAME",
       .help = "auto, io_uring, libaio or threads; a named one that does not work "
               "is an error",
       .choices = {"auto", "io_uring", "libaio", "threads"}});
  flags.Add("direct", &c.direct,
            {.value = "on|off",
             .help = "past the page cache, or through it",
             .choices = {"on", "off"}});
  flags.Add("pages", &c.pages,
            {.value = "KIND",
             .help = "memory: huge pages, 4k pages, or shm (/dev/shm)",
             .choices = {"auto", "huge", "4k", "shm"}});
  flags.Add("loops", &c.loops,
            {.value = "N",
             .help = "passes over the data; the median of them is shown",
             .absent = "5 of half a second",
             .least = 1,
             .most = 10000});
  flags.Add("verify", &c.verify,
            {.help = "checksum what is written and compare what is read"});
  flags.BeginGroup("Output");
  flags.Add(
      "json", &c.json,
      {.value = "F",
       .help = "also write everything as JSON (schema tierbench/1); - prints it in "
               "place of the table"});
  flags.Add(
      "save_profile", &c.save_profile,
      {.help = "store the machine profile that tierplan and tiertrain read: "
               "~/.config/strata/profile.json, or the file STRATA_PROFILE names"});
  return flags;
}

}  // namespace strata
