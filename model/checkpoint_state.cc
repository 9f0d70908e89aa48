#include "model/checkpoint_state.h"

#include <absl/strings/str_cat.h>

#include <memory>

#include "model/parts.h"
#include "model/safetensors.h"
#include "model/safetensors_writer.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

std::string FileNameOf(const Part& part) {
  return absl::StrCat(part.name, ".safetensors");
}

/// The tensors that have `part`, in the order in which a trainer shows them.
std::vector<StoredTensorSpec> SpecsOf(const ModelShape& model, size_t part) {
  const StoredType type = PartsOf(model.dtype)[part].type;
  std::vector<StoredTensorSpec> specs;
  for (const auto& layer : model.layers) {
    for (const TensorPlacement& tensor : MakeLayout(*layer).tensors) {
      if (part > 0 && !tensor.spec.trainable) continue;
      specs.push_back({tensor.spec.name, type, tensor.spec.shape});
    }
  }
  return specs;
}

absl::Status CheckTensors(const SafetensorsFile& file,
                          const std::vector<StoredTensorSpec>& specs) {
  for (const StoredTensorSpec& spec : specs) {
    const TensorInfo* const found = file.Find(spec.name);
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": tensor '", spec.name, "' is missing"));
    }
    if (found->type == spec.type && found->shape == spec.shape) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor '", spec.name, "' is ", Name(found->type),
                     " ", FormatShape(found->shape), " where this run has ",
                     Name(spec.type), " ", FormatShape(spec.shape)));
  }
  if (file.tensors().size() == specs.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), " holds ", file.tensors().size(),
                   " tensors where this run has ", specs.size()));
}

}  // namespace

int64_t TensorBytes(const ModelShape& model) {
  int64_t size_bytes = 0;
  for (size_t p = 0; p < PartsOf(model.dtype).size(); ++p) {
    for (const StoredTensorSpec& spec : SpecsOf(model, p)) {
      size_bytes += BytesOf(spec.type, spec.shape).value_or(0);
    }
  }
  return size_bytes;
}

absl::StatusOr<std::vector<CheckpointFile>> SaveTensors(Trainer& trainer,
                                                        const std::string& directory) {
  STRATA_RETURN_IF_ERROR(trainer.Settle());
  const std::vector<Part> parts = PartsOf(trainer.model().dtype);
  std::vector<std::unique_ptr<SafetensorsWriter>> writers;
  for (size_t p = 0; p < parts.size(); ++p) {
    STRATA_ASSIGN_OR_RETURN(
        std::unique_ptr<SafetensorsWriter> writer,
        SafetensorsWriter::Create(absl::StrCat(directory, "/", FileNameOf(parts[p])),
                                  SpecsOf(trainer.model(), p), {{"format", "pt"}}));
    writers.push_back(std::move(writer));
  }
  const PartsVisitor append = [&](const TensorSpec& tensor, int64_t,
                                  std::span<const std::span<std::byte>> bytes) {
    for (size_t p = 0; p < bytes.size(); ++p) {
      STRATA_RETURN_IF_ERROR(writers[p]->Append(tensor.name, bytes[p]));
    }
    return absl::OkStatus();
  };
  STRATA_RETURN_IF_ERROR(trainer.ReadParts(append));
  std::vector<CheckpointFile> files;
  for (size_t p = 0; p < parts.size(); ++p) {
    STRATA_RETURN_IF_ERROR(writers[p]->Finish());
    files.push_back(
        {FileNameOf(parts[p]), writers[p]->file_size_bytes(), writers[p]->checksum()});
  }
  return files;
}

absl::Status RestoreTrainer(Trainer& trainer, const std::string& directory,
                            const CheckpointManifest& manifest) {
  const std::vector<Part> parts = PartsOf(trainer.model().dtype);
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (size_t p = 0; p < parts.size(); ++p) {
    STRATA_ASSIGN_OR_RETURN(
        std::unique_ptr<SafetensorsFile> file,
        SafetensorsFile::Open(absl::StrCat(directory, "/", FileNameOf(parts[p]))));
    STRATA_RETURN_IF_ERROR(CheckTensors(*file, SpecsOf(trainer.model(), p)));
    files.push_back(std::move(file));
  }
  return trainer.Restore(
      manifest.trainer, [&](const TensorSpec& tensor, int64_t first,
                            std::span<const std::span<std::byte>> bytes) {
        for (size_t p = 0; p < bytes.size(); ++p) {
          STRATA_RETURN_IF_ERROR(files[p]->Read(
              *files[p]->Find(tensor.name), first * SizeOf(parts[p].type), bytes[p]));
        }
        return absl::OkStatus();
      });
}

}  // namespace strata
