#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "runtime/base/size.h"
#include "runtime/device/cuda_device.h"
#include "tools/machine/machine_report.h"

namespace strata {
namespace {

constexpr const char* kPciDevices = "/sys/bus/pci/devices";
constexpr const char* kNvidia = "0x10de";
constexpr const char* kDisplayClass = "0x03";  // VGA and 3D controllers

/// The PCIe links of NVIDIA cards, in the order of their addresses.
void AddLinks(const SystemView& system, Section& section) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const std::string& address : system.List(kPciDevices)) {
    const std::string device = absl::StrCat(kPciDevices, "/", address, "/");
    if (system.Line(device + "vendor") != kNvidia) continue;
    if (!absl::StartsWith(system.Line(device + "class").value_or(""), kDisplayClass)) {
      continue;
    }
    const auto width = system.Number(device + "current_link_width");
    const auto width_max = system.Number(device + "max_link_width");
    const std::string speed = system.Line(device + "max_link_speed").value_or("");
    if (!width || !width_max || *width_max == 0) continue;
    links.push_back({{"address", address},
                     {"width", *width},
                     {"width_max", *width_max},
                     {"speed_max", speed}});
    section.Add(
        "", nullptr, "PCIe " + address,
        absl::StrFormat("x%d of x%d lanes, up to %s", *width, *width_max, speed));
    if (*width < *width_max) {
      section.limits.push_back(
          {absl::StrFormat("the card at %s has %d of its %d PCIe lanes: copies between "
                           "device and host run at that share of the speed",
                           address, *width, *width_max),
           "move it to an x16 slot, or take out the card that shares its lanes"});
    }
  }
  section.Add("pcie_links", std::move(links), "", "");
}

/// What a person can do about a card that does not open.
std::string MendFor(const SystemView& system, const absl::Status& status) {
  const bool has_driver = system.Exists("/proc/driver/nvidia/version");
  if (absl::StrContains(status.message(), "no CUDA")) {
    return has_driver
               ? "build with the CUDA toolkit: cmake --preset release, with nvcc "
                 "in PATH"
               : "nothing, if there is no GPU; otherwise install its driver and "
                 "the CUDA toolkit, and build again";
  }
  if (!has_driver) {
    return "nothing, if there is no GPU; otherwise install NVIDIA's driver (in a "
           "container: docker run --gpus all)";
  }
  return "nvidia-smi says what the driver sees";
}

}  // namespace

Section ProbeDevice(const SystemView& system) {
  Section section{.key = "device", .title = "Device", .parts_key = "gpus"};
  absl::Status end;
  for (int ordinal = 0;; ++ordinal) {
    const absl::StatusOr<std::unique_ptr<Device>> device = CreateCudaDevice(ordinal);
    if (!device.ok()) {
      end = device.status();
      break;
    }
    Section gpu{.key = "gpu", .title = std::string((*device)->name())};
    gpu.Add("name", gpu.title, "", "");
    const absl::StatusOr<int64_t> free = (*device)->FreeBytes();
    gpu.Add("free_bytes", free.ok() ? nlohmann::ordered_json(*free) : nullptr, "free",
            free.ok() ? FormatSize(*free) : std::string(free.status().message()));
    gpu.Add("overhead_bytes", (*device)->overhead_bytes(), "context and others",
            FormatSize((*device)->overhead_bytes()));
    section.parts.push_back(std::move(gpu));
  }
  const bool has_gpu = !section.parts.empty();
  const std::string reason(end.message());
  section.Add("available", has_gpu, "", "");
  section.Add(
      "reason",
      has_gpu ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(reason),
      has_gpu ? "" : "no GPU", reason);
  if (!has_gpu) {
    section.Add("", nullptr, "cpu",
                "--device cpu works: the device tier is then an "
                "arena of its own in host memory");
    section.limits.push_back({"no GPU can be used", MendFor(system, end)});
  }
  AddLinks(system, section);
  return section;
}

}  // namespace strata
