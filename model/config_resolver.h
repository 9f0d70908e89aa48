/// How one value comes out of a key and a flag. Internal to the resolution of
/// RunConfig.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>

#include "model/deepspeed_config.h"
#include "model/run_config.h"

namespace strata {

/// A key, the flag that fills it (null if there is none) and what it is without either.
template <typename T>
struct KeyAndFlag {
  const char* path;
  const char* flag;  // "--learning_rate"
  std::optional<T> typed;
  T default_of_trainer;                   // for "auto", and where the section is absent
  std::optional<T> default_of_deepspeed;  // unset: its section is absent
};

class ConfigResolver {
 public:
  /// All outlive the resolver.
  ConfigResolver(const DeepSpeedConfig& file, const TrainFlags& flags,
                 ConfigResolution& out)
      : file_(file), flags_(flags), out_(out) {}

  const DeepSpeedConfig& file() const { return file_; }
  const TrainFlags& flags() const { return flags_; }
  RunConfig& config() { return out_.config; }
  ConfigReport& report() { return out_.report; }

  /// The key's value in the file, unless it is "auto" or absent.
  const DeepSpeedValue* Given(absl::string_view path) const;

  double Number(const KeyAndFlag<double>& key);
  int64_t Count(const KeyAndFlag<int64_t>& key);
  bool Bool(const KeyAndFlag<bool>& key);

  /// Keys that no flag fills.
  double NumberOr(const char* path, double default_value);
  int64_t CountOr(const char* path, int64_t default_value);
  bool BoolOr(const char* path, bool default_value);

  /// Flags that fill no key: the typed value, else the default; recorded.
  template <typename T>
  T Flag(const char* flag, const std::optional<T>& typed, T default_value) {
    Record(flag, Text(typed.value_or(default_value)),
           typed ? std::string(flag) : std::string(kTrainerDefault));
    return typed.value_or(default_value);
  }

  void Record(absl::string_view path, std::string value, std::string source);
  /// Refuses unless `valid`: "path: is VALUE; EXPECTATION".
  void Require(bool valid, const char* path, double value,
               absl::string_view expectation);
  void RefuseConflict(const DeepSpeedValue& value, absl::string_view flag,
                      absl::string_view typed);
  std::string SourceOf(const DeepSpeedValue& value) const;

  static std::string Text(double value);
  static std::string Text(int64_t value);
  static std::string Text(bool value);
  static std::string Text(const std::string& value) { return value; }

  static constexpr const char* kTrainerDefault = "default of transformers' Trainer";
  static constexpr const char* kDeepSpeedDefault = "default of DeepSpeed";

 private:
  template <typename T>
  T Resolve(const KeyAndFlag<T>& key, T (*read)(const DeepSpeedValue&));

  const DeepSpeedConfig& file_;
  const TrainFlags& flags_;
  ConfigResolution& out_;
};

// The parts of a RunConfig, in the order in which they depend on each other.
void ResolveBatch(ConfigResolver& resolver);
void ResolvePrecision(ConfigResolver& resolver);
void ResolveOptimizer(ConfigResolver& resolver);
void ResolveSchedule(ConfigResolver& resolver);
void ResolvePlacement(ConfigResolver& resolver);
void ResolveZero(ConfigResolver& resolver, int64_t hidden);
void ResolveLogs(ConfigResolver& resolver);
void ResolveRun(ConfigResolver& resolver);

}  // namespace strata
