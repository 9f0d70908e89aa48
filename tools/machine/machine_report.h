/// What tierinfo found, as data: facts, and what limits a tier together with the
/// command that mends it. Text and JSON are made from the same report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/machine/system_view.h"

namespace strata {

struct Fact {
  std::string key;  // in the JSON: "available_bytes"; "" = only in the text
  nlohmann::ordered_json value;
  std::string label;  // in the text: "available"; "" = only in the JSON
  std::string text;
};

/// Something that makes a tier smaller, slower or unusable.
struct Limit {
  std::string what;
  std::string mend;  // a command, or what to do
};

struct Section {
  std::string key;    // "host"
  std::string title;  // "Host memory"
  std::vector<Fact> facts;
  std::vector<Limit> limits;
  /// Several of a kind (cards, directories): a JSON array named `parts_key`.
  std::string parts_key;
  std::vector<Section> parts;

  void Add(std::string fact_key, nlohmann::ordered_json value, std::string label,
           std::string text) {
    facts.push_back(
        {std::move(fact_key), std::move(value), std::move(label), std::move(text)});
  }
};

/// Cores, instruction set, kernel, page size.
Section ProbeMachine(const SystemView& system);
/// GPUs as CreateCudaDevice opens them, and their PCIe links. Without one: why.
Section ProbeDevice(const SystemView& system);
/// Memory, the container's limit, memlock, /dev/shm, huge pages.
Section ProbeHost(const SystemView& system);
/// Filesystem, drive and I/O backends of each directory. A directory that cannot be
/// used is a limit, not an error. Each is left as it was.
Section ProbeNvme(const SystemView& system, const std::vector<std::string>& paths);

/// {"tool", "version", a member for each section, "limits": [{"tier", "what", "do"}]}.
std::string ReportJson(const std::vector<Section>& sections);
std::string ReportText(const std::vector<Section>& sections);

}  // namespace strata
