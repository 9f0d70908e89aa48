#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "tools/machine/machine_report.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

Json SectionJson(const Section& section) {
  Json json = Json::object();
  for (const Fact& fact : section.facts) {
    if (!fact.key.empty()) json[fact.key] = fact.value;
  }
  if (!section.parts_key.empty()) {
    Json& parts = json[section.parts_key] = Json::array();
    for (const Section& part : section.parts) parts.push_back(SectionJson(part));
  }
  return json;
}

void AppendLimits(const Section& section, const std::string& tier, Json& limits) {
  for (const Limit& limit : section.limits) {
    limits.push_back({{"tier", tier}, {"what", limit.what}, {"do", limit.mend}});
  }
  for (const Section& part : section.parts) AppendLimits(part, tier, limits);
}

void AppendText(const Section& section, const std::string& indent, std::string& text) {
  absl::StrAppend(&text, indent, section.title, "\n");
  for (const Fact& fact : section.facts) {
    if (fact.label.empty()) continue;
    absl::StrAppendFormat(&text, "%s  %-18s %s\n", indent, fact.label, fact.text);
  }
  for (const Section& part : section.parts) AppendText(part, indent + "  ", text);
  for (const Limit& limit : section.limits) {
    absl::StrAppend(&text, indent, "  ! ", limit.what, "\n", indent,
                    "    do: ", limit.mend, "\n");
  }
}

}  // namespace

std::string ReportJson(const std::vector<Section>& sections) {
  Json json = {{"tool", "tierinfo"}, {"version", STRATA_VERSION}};
  Json limits = Json::array();
  for (const Section& section : sections) {
    json[section.key] = SectionJson(section);
    AppendLimits(section, section.key, limits);
  }
  json["limits"] = std::move(limits);
  // Paths and device names come from outside and need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ReportText(const std::vector<Section>& sections) {
  std::string text;
  Json limits = Json::array();
  for (const Section& section : sections) {
    AppendText(section, "", text);
    AppendLimits(section, section.key, limits);
    text += "\n";
  }
  absl::StrAppend(&text,
                  limits.empty() ? std::string("Nothing here limits a tier.")
                                 : absl::StrCat(limits.size(), " limit",
                                                limits.size() == 1 ? "" : "s",
                                                " found: the lines with \"!\" above"),
                  "\n");
  return text;
}

}  // namespace strata
