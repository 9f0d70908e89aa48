#include "runtime/plan/machine_profile_json.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/nearest_name.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

struct RateKey {
  const char* key;
  double MachineProfile::*member;
};
constexpr RateKey kRates[] = {
    {"compute_flop_per_second", &MachineProfile::compute_flops},
    {"device_memory_bytes_per_second", &MachineProfile::device_memory},
    {"host_to_device_bytes_per_second", &MachineProfile::host_to_device},
    {"device_to_host_bytes_per_second", &MachineProfile::device_to_host},
    {"both_directions_bytes_per_second", &MachineProfile::both_directions},
    {"host_memory_bytes_per_second", &MachineProfile::host_memory},
    {"cpu_update_bytes_per_second", &MachineProfile::cpu_update},
    {"cpu_advance_bytes_per_second", &MachineProfile::cpu_advance},
    {"nvme_read_bytes_per_second", &MachineProfile::nvme_read},
    {"nvme_write_bytes_per_second", &MachineProfile::nvme_write},
    {"nvme_both_bytes_per_second", &MachineProfile::nvme_both},
};
constexpr const char* kName = "name";
// These four may be missing.
constexpr const char* kMachine = "machine";
constexpr const char* kDevice = "device";
constexpr const char* kChunk = "nvme_chunk_bytes";
constexpr const char* kWindow = "nvme_window_bytes";
constexpr const char* kOpOverhead = "op_overhead_seconds";
constexpr const char* kDeviceOverhead = "device_overhead_bytes";

std::vector<std::string> NeededKeys() {
  std::vector<std::string> keys = {kName, kOpOverhead, kDeviceOverhead};
  for (const RateKey& rate : kRates) keys.push_back(rate.key);
  return keys;
}

absl::Status Fault(absl::string_view name, absl::string_view key,
                   absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("machine profile ", name, ": '", key, "' ", what));
}

absl::Status CheckKeys(const Json& json, absl::string_view name) {
  const std::vector<std::string> needed = NeededKeys();
  std::vector<std::string> keys = needed;
  keys.insert(keys.end(), {kMachine, kDevice, kChunk, kWindow});
  for (const auto& [key, value] : json.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const auto nearest = NearestName(key, keys);
    return Fault(
        name, key,
        nearest ? absl::StrCat("is not a key of it: did you mean '", *nearest, "'?")
                : absl::StrCat("is not a key of it; there are ",
                               absl::StrJoin(keys, ", ")));
  }
  for (const std::string& key : needed) {
    if (!json.contains(key)) return Fault(name, key, "is missing");
  }
  return absl::OkStatus();
}

/// A text, which may be missing unless it has to be there.
absl::StatusOr<std::string> ReadText(const Json& json, const char* key,
                                     absl::string_view name) {
  if (!json.contains(key)) return std::string();
  if (!json[key].is_string()) return Fault(name, key, "is not a text");
  return json[key].get<std::string>();
}

absl::StatusOr<double> ReadNumber(const Json& json, const char* key, double least,
                                  absl::string_view name) {
  const Json& value = json[key];
  if (!value.is_number()) return Fault(name, key, "is not a number");
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < least) {
    return Fault(name, key, absl::StrCat("is ", number, ", which is too small"));
  }
  return number;
}

absl::StatusOr<int64_t> ReadBytes(const Json& json, const char* key, double most,
                                  absl::string_view name) {
  STRATA_ASSIGN_OR_RETURN(const double bytes, ReadNumber(json, key, 0.0, name));
  if (bytes > most) return Fault(name, key, absl::StrCat("is ", bytes, ": too large"));
  return static_cast<int64_t>(bytes);
}

/// A chunk or a window of the drive, which has to consist of pages.
absl::StatusOr<int64_t> ReadPages(const Json& json, const char* key,
                                  absl::string_view name) {
  if (!json.contains(key)) return 0;
  constexpr double kMost = 1 << 30;
  STRATA_ASSIGN_OR_RETURN(const int64_t bytes, ReadBytes(json, key, kMost, name));
  if (bytes % (4 * kKiB) == 0) return bytes;
  return Fault(name, key, absl::StrCat("is ", bytes, ", no multiple of 4096"));
}

KnownMachine Gpu(const char* name, double flops, double device_memory, double one_way,
                 double both, double host_memory, int64_t device_bytes) {
  MachineProfile profile;
  profile.name = name;
  profile.compute_flops = flops;
  profile.device_memory = device_memory;
  profile.host_to_device = profile.device_to_host = one_way;
  profile.both_directions = both;
  profile.host_memory = host_memory;
  // Its cores compute between loads.
  profile.cpu_update = profile.cpu_advance = 0.95 * host_memory;
  profile.device_overhead_bytes = 700 * kMiB;
  return {profile, device_bytes};
}

std::vector<KnownMachine> MakeKnownMachines() {
  KnownMachine h200 = Gpu("h200", 650e12, 4.0e12, 55e9, 102e9, 150e9, 139 * kGiB);
  h200.profile.nvme_read = 2.6e9;
  h200.profile.nvme_write = 3.2e9;
  h200.profile.nvme_both = 2.9e9;
  KnownMachine rtx4090 = Gpu("rtx4090", 150e12, 0.85e12, 25e9, 45e9, 60e9, 24 * kGiB);
  KnownMachine rtx3090 = Gpu("rtx3090", 60e12, 0.8e12, 25e9, 45e9, 60e9, 24 * kGiB);
  for (KnownMachine* desktop : {&rtx4090, &rtx3090}) {
    desktop->profile.nvme_read = 7e9;
    desktop->profile.nvme_write = 5e9;
    desktop->profile.nvme_both = 6e9;
  }
  KnownMachine cpu;
  cpu.profile.name = "cpu";
  cpu.profile.compute_flops = 2e11;
  cpu.profile.device_memory = 1e10;
  cpu.profile.host_to_device = cpu.profile.device_to_host = 5e9;
  cpu.profile.both_directions = 8e9;
  cpu.profile.host_memory = 1.5e10;
  cpu.profile.cpu_update = cpu.profile.cpu_advance = 1.4e10;
  cpu.profile.nvme_read = cpu.profile.nvme_write = cpu.profile.nvme_both = 1e9;
  cpu.profile.op_overhead_seconds = 5e-5;
  return {h200, rtx4090, rtx3090, cpu};
}

}  // namespace

std::string MachineProfileJson(const MachineProfile& profile) {
  Json json = {{kName, profile.name}};
  if (!profile.machine.empty()) json[kMachine] = profile.machine;
  if (!profile.device.empty()) json[kDevice] = profile.device;
  for (const RateKey& rate : kRates) json[rate.key] = profile.*rate.member;
  if (profile.nvme_chunk_bytes > 0) {
    json[kChunk] = profile.nvme_chunk_bytes;
    json[kWindow] = profile.nvme_window_bytes;
  }
  json[kOpOverhead] = profile.op_overhead_seconds;
  json[kDeviceOverhead] = profile.device_overhead_bytes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<MachineProfile> ParseMachineProfile(absl::string_view text,
                                                   absl::string_view name) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("machine profile ", name, ": this is not a JSON object"));
  }
  STRATA_RETURN_IF_ERROR(CheckKeys(json, name));
  MachineProfile profile;
  STRATA_ASSIGN_OR_RETURN(profile.name, ReadText(json, kName, name));
  STRATA_ASSIGN_OR_RETURN(profile.machine, ReadText(json, kMachine, name));
  STRATA_ASSIGN_OR_RETURN(profile.device, ReadText(json, kDevice, name));
  for (const RateKey& rate : kRates) {
    STRATA_ASSIGN_OR_RETURN(profile.*rate.member,
                            ReadNumber(json, rate.key, 1.0, name));
  }
  STRATA_ASSIGN_OR_RETURN(profile.op_overhead_seconds,
                          ReadNumber(json, kOpOverhead, 0.0, name));
  STRATA_ASSIGN_OR_RETURN(profile.device_overhead_bytes,
                          ReadBytes(json, kDeviceOverhead, 1e15, name));
  STRATA_ASSIGN_OR_RETURN(profile.nvme_chunk_bytes, ReadPages(json, kChunk, name));
  STRATA_ASSIGN_OR_RETURN(profile.nvme_window_bytes, ReadPages(json, kWindow, name));
  if (profile.nvme_window_bytes < profile.nvme_chunk_bytes) {
    return Fault(name, kWindow, "is less than a chunk");
  }
  return profile;
}

const std::vector<KnownMachine>& KnownMachines() {
  static const auto* const machines =
      new std::vector<KnownMachine>(MakeKnownMachines());
  return *machines;
}

const KnownMachine* FindKnownMachine(absl::string_view name) {
  for (const KnownMachine& machine : KnownMachines()) {
    if (machine.profile.name == name) return &machine;
  }
  return nullptr;
}

}  // namespace strata
