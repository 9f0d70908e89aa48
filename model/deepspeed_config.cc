#include "model/deepspeed_config.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cmath>
#include <optional>

#include "model/deepspeed_value.h"
#include "model/json_reader.h"

namespace strata {
namespace {

std::string Join(absl::string_view section, absl::string_view name) {
  return absl::StrCat(section, section.empty() ? "" : ".", name);
}

bool IsTrue(const JsonValue& value) {
  if (value.is_string()) return absl::AsciiStrToLower(value.text) == "true";
  if (value.is_number()) return value.number != 0 && value.number != 1;
  return value.is_bool() && value.boolean;
}

bool AnyEnabled(const JsonValue& value) {
  for (const JsonMember& member : value.members) {
    if (member.name == "enabled" && IsTrue(member.value)) return true;
    if (AnyEnabled(member.value)) return true;
  }
  return false;
}

bool IsOn(const JsonValue& value, OnRule rule) {
  switch (rule) {
    case OnRule::kTrue:
      return IsTrue(value);
    case OnRule::kEnabled: {
      const JsonValue* enabled = value.Find("enabled");
      return enabled != nullptr && IsTrue(*enabled);
    }
    case OnRule::kAnyEnabled:
      return AnyEnabled(value);
    case OnRule::kPresent:
      return !value.members.empty();
  }
  return false;
}

bool IsSupportedOptimizer(absl::string_view type) {
  const std::string lower = absl::AsciiStrToLower(type);
  return lower == "adam" || lower == "adamw";
}

}  // namespace

// Walks the JSON beside the table of keys.
class DeepSpeedReader {
 public:
  DeepSpeedReader(DeepSpeedConfig& config, ConfigReport& report)
      : config_(config), report_(report) {}

  // `section` is the path that the object's keys belong to, `written` how the file has
  // it.
  void ReadSection(const JsonValue& object, const std::string& section,
                   const std::string& written) {
    if (section == "optimizer" && RefuseOptimizer(object, written)) return;
    for (const JsonMember& member : object.members) {
      if (!member.value.is_null()) ReadMember(member, section, written);
    }
  }

 private:
  void ReadMember(const JsonMember& member, const std::string& section,
                  const std::string& written_section) {
    const std::string written = Join(written_section, member.name);
    std::string path = Join(section, member.name);
    if (const KeyAlias* alias = FindDeepSpeedAlias(path)) {
      if (alias->deprecated) {
        report_.Warn(written, member.line,
                     absl::StrCat("is an old name, now ", alias->canonical_path));
      }
      path = alias->canonical_path;
    }
    const KeySpec* key = FindDeepSpeedKey(path);
    if (key == nullptr) return ReadUnknown(member, section, written);
    if (const auto [first, is_new] = seen_.emplace(path, written); !is_new) {
      report_.Refuse(written, member.line,
                     absl::StrCat("is another name of ", first->second,
                                  ", which is given too; keep one"));
      return;
    }
    if (key->type == KeyType::kSection) return ReadSectionMember(member, path, written);
    if (key->role == KeyRole::kRefusedWhenOn) {
      if (IsOn(member.value, key->on)) report_.Refuse(written, member.line, key->note);
      if (key->type == KeyType::kOpaque) return;
    }
    ReadLeaf(member.value, *key, written);
  }

  void ReadSectionMember(const JsonMember& member, const std::string& path,
                         const std::string& written) {
    DeepSpeedValue& value = config_.values_[path];
    value.written_path = written;
    value.line = member.line;
    if (path == "zero_optimization" && member.value.is_bool()) {
      report_.Warn(written, member.line, "is an old form, now {\"stage\": 1} for true");
      config_.values_["zero_optimization.stage"] = {.written_path = written,
                                                    .line = member.line,
                                                    .integer = member.value.boolean};
      return;
    }
    if (!member.value.is_object()) {
      report_.Refuse(
          written, member.line,
          absl::StrCat("is ", member.value.Describe(), "; an object is expected"));
      return;
    }
    ReadSection(member.value, path, written);
  }

  void ReadLeaf(const JsonValue& json, const KeySpec& key, const std::string& written) {
    std::optional<DeepSpeedValue> value;
    if (key.type == KeyType::kText && json.is_bool()) {
      value = ReadOldOffload(json, written);
    } else if (!json.is_number() || std::isfinite(json.number)) {  // else noted already
      value = ConvertDeepSpeedValue(json, key.type, written, report_);
    }
    if (!value) return;
    if (key.role == KeyRole::kUsed) {
      config_.values_[key.path] = *std::move(value);
    } else if (key.role == KeyRole::kNoEffect) {
      config_.ignored_.push_back({written, json.Describe(), key.note});
    }
  }

  // "cpu_offload": true, from the time before there were devices.
  std::optional<DeepSpeedValue> ReadOldOffload(const JsonValue& json,
                                               const std::string& written) {
    if (FindDeepSpeedAlias(written) == nullptr) {
      return ConvertDeepSpeedValue(json, KeyType::kText, written, report_);
    }
    if (!json.boolean) return std::nullopt;
    return DeepSpeedValue{.written_path = written, .line = json.line, .text = "cpu"};
  }

  void ReadUnknown(const JsonMember& member, const std::string& section,
                   const std::string& written) {
    const UnknownKey unknown = ExplainUnknownKey(section, member.name);
    const KeySpec* elsewhere = FindDeepSpeedKey(member.name);
    const bool misplaced_section = !section.empty() && elsewhere != nullptr &&
                                   elsewhere->type == KeyType::kSection;
    const std::string nearest = absl::StrCat(
        misplaced_section ? "its place is the top level" : "the nearest valid key is ",
        misplaced_section ? "" : unknown.nearest);
    if (section != "compile" && (IsStrictSection(section) || unknown.meant)) {
      report_.Refuse(written, member.line, absl::StrCat("is no valid key; ", nearest));
    } else {
      report_.Warn(written, member.line,
                   absl::StrCat("is no valid key and is ignored; ", nearest));
    }
    // What the section would have held is looked at all the same.
    if (misplaced_section && member.value.is_object() &&
        seen_.emplace(member.name, written).second) {
      ReadSection(member.value, member.name, written);
    }
  }

  // An optimizer that is none of ours takes its own parameters with it.
  bool RefuseOptimizer(const JsonValue& object, const std::string& written) {
    const JsonValue* type = object.Find("type");
    if (type == nullptr || !type->is_string()) {
      report_.Refuse(Join(written, "type"), object.line,
                     "is missing; Adam and AdamW are supported");
      return true;
    }
    if (IsSupportedOptimizer(type->text)) return false;
    std::vector<std::string> own;
    if (const JsonValue* params = object.Find("params")) {
      for (const JsonMember& member : params->members) {
        const std::string path = Join("optimizer.params", member.name);
        if (FindDeepSpeedKey(path) == nullptr) own.push_back(member.name);
      }
    }
    const std::string with =
        own.empty() ? "" : absl::StrCat("; ", absl::StrJoin(own, ", "), " go with it");
    report_.Refuse(
        Join(written, "type"), type->line,
        absl::StrCat("is ", type->Describe(),
                     ", which is not supported; the nearest are Adam and AdamW", with));
    return true;
  }

  DeepSpeedConfig& config_;
  ConfigReport& report_;
  std::map<std::string, std::string> seen_;  // present name -> as it is written
};

DeepSpeedConfig DeepSpeedConfig::Parse(absl::string_view text, absl::string_view name,
                                       ConfigReport& report) {
  DeepSpeedConfig config;
  config.name_ = std::string(name);
  absl::StatusOr<JsonDocument> document = ParseRelaxedJson(text, name);
  if (!document.ok()) {
    report.Refuse("", 0, std::string(document.status().message()));
    return config;
  }
  if (document->not_plain) {
    report.Warn("", document->not_plain->line,
                absl::StrCat("is not plain JSON: ", document->not_plain->text,
                             "; read here, but other tools will refuse it"));
  }
  for (const JsonNote& fault : document->faults) {
    report.Refuse(fault.path, fault.line, fault.text);
  }
  if (!document->root.is_object()) {
    report.Refuse("", document->root.line, "is no JSON object");
    return config;
  }
  DeepSpeedReader(config, report).ReadSection(document->root, "", "");
  return config;
}

const DeepSpeedValue* DeepSpeedConfig::Find(absl::string_view path) const {
  const auto found = values_.find(std::string(path));
  return found == values_.end() ? nullptr : &found->second;
}

}  // namespace strata
