#include "model/hf_checkpoint.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "model/json_reader.h"
#include "model/stored_floats.h"
#include "model/text_file.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr absl::string_view kSingleName = "model.safetensors";
constexpr absl::string_view kIndexName = "model.safetensors.index.json";
constexpr absl::string_view kEmbedding = "model.embed_tokens.weight";
constexpr absl::string_view kHead = "lm_head.weight";
constexpr size_t kFaultsShownMax = 5;
constexpr int64_t kCompareElements = 1 << 18;

bool Exists(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0;
}

std::string JoinFaults(const std::vector<std::string>& faults) {
  const size_t shown = std::min(faults.size(), kFaultsShownMax);
  std::string text = absl::StrJoin(faults.begin(), faults.begin() + shown, "; ");
  if (shown < faults.size()) {
    absl::StrAppend(&text, "; and ", faults.size() - shown, " more");
  }
  return text;
}

// Old checkpoints carry the rotary frequencies, which we compute.
bool IsDerived(absl::string_view name) {
  return absl::EndsWith(name, ".rotary_emb.inv_freq");
}

absl::StatusOr<bool> SameValues(const TensorSource& a, const TensorSource& b) {
  if (a.info->shape != b.info->shape) return false;
  std::vector<float> left(kCompareElements);
  std::vector<float> right(kCompareElements);
  const int64_t count = a.info->element_count();
  for (int64_t start = 0; start < count; start += kCompareElements) {
    const auto size = static_cast<size_t>(std::min(kCompareElements, count - start));
    const std::span<float> left_piece(left.data(), size);
    const std::span<float> right_piece(right.data(), size);
    STRATA_RETURN_IF_ERROR(ReadFloats(*a.file, *a.info, start, left_piece));
    STRATA_RETURN_IF_ERROR(ReadFloats(*b.file, *b.info, start, right_piece));
    if (!std::equal(left_piece.begin(), left_piece.end(), right_piece.begin())) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HfCheckpoint>> HfCheckpoint::Open(
    absl::string_view directory) {
  std::unique_ptr<HfCheckpoint> checkpoint(new HfCheckpoint(directory));
  const std::string index_path = absl::StrCat(directory, "/", kIndexName);
  if (Exists(index_path)) {
    STRATA_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(index_path));
    STRATA_RETURN_IF_ERROR(checkpoint->OpenIndexed(text));
  } else {
    STRATA_RETURN_IF_ERROR(checkpoint->OpenSingle());
  }
  return checkpoint;
}

absl::StatusOr<const SafetensorsFile*> HfCheckpoint::OpenFile(const std::string& name) {
  std::unique_ptr<SafetensorsFile>& file = files_[name];
  if (file == nullptr) {
    STRATA_ASSIGN_OR_RETURN(file,
                            SafetensorsFile::Open(absl::StrCat(directory_, "/", name)));
  }
  return file.get();
}

absl::Status HfCheckpoint::OpenSingle() {
  if (!Exists(absl::StrCat(directory_, "/", kSingleName))) {
    for (absl::string_view old_name :
         {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
      if (!Exists(absl::StrCat(directory_, "/", old_name))) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(directory_, " holds only ", old_name,
                       "; only safetensors are read: load it in transformers and "
                       "save_pretrained(..., "
                       "safe_serialization=True)"));
    }
    return absl::NotFoundError(
        absl::StrCat(directory_, " holds neither ", kSingleName, " nor ", kIndexName));
  }
  STRATA_ASSIGN_OR_RETURN(const SafetensorsFile* file,
                          OpenFile(std::string(kSingleName)));
  for (const TensorInfo& info : file->tensors()) tensors_[info.name] = {file, &info};
  return absl::OkStatus();
}

absl::Status HfCheckpoint::OpenIndexed(const std::string& index_text) {
  const std::string index_path = absl::StrCat(directory_, "/", kIndexName);
  STRATA_ASSIGN_OR_RETURN(const JsonValue index, ParseJson(index_text, index_path));
  const JsonValue* map = index.Find("weight_map");
  if (map == nullptr || !map->is_object() || map->members.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": weight_map is missing"));
  }
  for (const JsonMember& member : map->members) {
    const std::string where =
        absl::StrCat(index_path, ":", member.line, ": tensor '", member.name, "'");
    const std::string& shard = member.value.text;
    if (!member.value.is_string() || shard.empty() || absl::StrContains(shard, '/') ||
        shard == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " lies in ", member.value.Describe(),
                       ", which is no file name within the model's directory"));
    }
    absl::StatusOr<const SafetensorsFile*> file = OpenFile(shard);
    if (!file.ok()) return Annotate(file.status(), where);
    const TensorInfo* info = (*file)->Find(member.name);
    if (info == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, " is not in ", (*file)->path(), ", where the index says that it is"));
    }
    tensors_[member.name] = {*file, info};
  }
  const JsonValue* metadata = index.Find("metadata");
  const JsonValue* total = metadata == nullptr ? nullptr : metadata->Find("total_size");
  CheckAgainstIndex(kIndexName,
                    total == nullptr ? -1 : total->AsInteger().value_or(-1));
  return absl::OkStatus();
}

// Warns of what an index gets wrong without misleading us.
void HfCheckpoint::CheckAgainstIndex(absl::string_view index_name,
                                     int64_t total_size_bytes) {
  int64_t sum_bytes = 0;
  for (const auto& [name, source] : tensors_) sum_bytes += source.info->size_bytes;
  if (total_size_bytes >= 0 && total_size_bytes != sum_bytes) {
    warnings_.push_back(absl::StrCat(directory_, "/", index_name, ": total_size is ",
                                     total_size_bytes, " but the tensors have ",
                                     sum_bytes, " bytes"));
  }
  for (const auto& [name, file] : files_) {
    for (const TensorInfo& info : file->tensors()) {
      if (tensors_.contains(info.name)) continue;
      warnings_.push_back(absl::StrCat(file->path(), ": tensor '", info.name,
                                       "' is not listed in ", index_name,
                                       " and is not read"));
    }
  }
  if (!files_.contains(std::string(kSingleName)) &&
      Exists(absl::StrCat(directory_, "/", kSingleName))) {
    warnings_.push_back(absl::StrCat(directory_, "/", kSingleName, " is not read: ",
                                     index_name, " names other files"));
  }
}

const TensorSource* HfCheckpoint::Find(absl::string_view name) const {
  const auto found = tensors_.find(std::string(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

// The file in which a missing tensor would have been looked for.
std::string HfCheckpoint::FileOf(absl::string_view tensor) const {
  for (const auto& [name, file] : files_) {
    if (file->Find(tensor) != nullptr) {
      return absl::StrCat(file->path(), ", which the index does not say");
    }
  }
  return files_.size() == 1 ? files_.begin()->second->path()
                            : absl::StrCat(directory_, "/", kIndexName);
}

absl::Status HfCheckpoint::Verify(const TransformerConfig& config) const {
  std::vector<std::string> faults;
  std::set<std::string> expected;
  for (const TensorShape& tensor : TensorsOf(config)) {
    expected.insert(tensor.name);
    const TensorSource* source = Find(tensor.name);
    if (source == nullptr) {
      faults.push_back(absl::StrCat(
          "tensor '", tensor.name, "' ", FormatShape(tensor.shape), " is missing in ",
          FileOf(tensor.name),
          tensor.name == kHead ? " (is tie_word_embeddings true in config.json?)"
                               : ""));
    } else if (source->info->shape != tensor.shape || !IsFloat(source->info->type)) {
      faults.push_back(absl::StrCat(
          "tensor '", tensor.name, "' in ", source->file->path(), " is ",
          Name(source->info->type), " ", FormatShape(source->info->shape),
          " where config.json asks for floats of ", FormatShape(tensor.shape)));
    }
  }
  for (const auto& [name, source] : tensors_) {
    if (expected.contains(name) || IsDerived(name)) continue;
    if (config.tied && name == kHead) continue;
    faults.push_back(absl::StrCat("tensor '", name, "' in ", source.file->path(),
                                  " has no place in the model of config.json"));
  }
  if (!faults.empty()) return absl::InvalidArgumentError(JoinFaults(faults));

  const TensorSource* head = config.tied ? Find(kHead) : nullptr;
  if (head == nullptr) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(const bool same, SameValues(*head, *Find(kEmbedding)));
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor '", kHead, "' in ", head->file->path(), " differs from '", kEmbedding,
      "' although config.json says tie_word_embeddings; set it to false or drop the "
      "head"));
}

}  // namespace strata
