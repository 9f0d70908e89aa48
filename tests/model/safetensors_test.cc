#include "model/safetensors.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "model/safetensors_writer.h"
#include "model/stored_floats.h"
#include "runtime/base/float16.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

std::string LittleEndian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i, value >>= 8)
    bytes.push_back(static_cast<char>(value & 255));
  return bytes;
}

std::string FileOf(const std::string& header, size_t data_bytes) {
  return LittleEndian(header.size()) + header + std::string(data_bytes, 'x');
}

TEST(Safetensors, WhatWasWrittenInPiecesIsReadBack) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("a.safetensors");
  const std::vector<StoredTensorSpec> specs = {
      {"half", StoredType::kBF16, {3}},
      {"offsets \"x\"", StoredType::kI64, {2, 1}},
      {"scalar", StoredType::kF32, {}},
      {"none", StoredType::kI32, {0, 4}}};
  auto writer =
      SafetensorsWriter::Create(path, specs, {{"format", "pt"}, {"a\nb", "\\"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<int64_t> offsets = {7, -8};
  const float scalar = 1.5f;
  const std::vector<uint16_t> half = {1, 2, 3};
  const auto bytes = std::as_bytes(std::span(half));
  ASSERT_TRUE((*writer)->Append("half", bytes.first(3)).ok());
  ASSERT_TRUE(
      (*writer)->Append("offsets \"x\"", std::as_bytes(std::span(offsets))).ok());
  ASSERT_TRUE((*writer)->Append("half", bytes.subspan(3)).ok());
  ASSERT_TRUE((*writer)->Append("scalar", std::as_bytes(std::span(&scalar, 1))).ok());
  ASSERT_TRUE((*writer)->Finish().ok());

  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  EXPECT_EQ((*file)->metadata().at("a\nb"), "\\");
  ASSERT_EQ((*file)->tensors().size(), 4u);
  EXPECT_EQ(std::filesystem::file_size(path),
            static_cast<uint64_t>((*writer)->file_size_bytes()));
  for (const TensorInfo& tensor : (*file)->tensors()) {
    EXPECT_EQ(tensor.offset_bytes % SizeOf(tensor.type), 0) << tensor.name;
  }
  std::vector<int64_t> read_offsets(2);
  const TensorInfo* info = (*file)->Find("offsets \"x\"");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->shape, (std::vector<int64_t>{2, 1}));
  ASSERT_TRUE(
      (*file)->Read(*info, 0, std::as_writable_bytes(std::span(read_offsets))).ok());
  EXPECT_EQ(read_offsets, offsets);
  uint16_t last = 0;
  ASSERT_TRUE(
      (*file)
          ->Read(*(*file)->Find("half"), 4, std::as_writable_bytes(std::span(&last, 1)))
          .ok());
  EXPECT_EQ(last, 3);
  EXPECT_EQ((*file)->Find("other"), nullptr);
}

TEST(SafetensorsWriter, LeavesNothingBehindUnlessEveryTensorIsComplete) {
  const TemporaryDirectory directory;
  const std::vector<StoredTensorSpec> specs = {{"weight", StoredType::kF32, {2}}};
  {
    auto writer = SafetensorsWriter::Create(directory.File("a"), specs, {});
    ASSERT_TRUE(writer.ok());
    const float value = 1;
    ASSERT_TRUE((*writer)->Append("weight", std::as_bytes(std::span(&value, 1))).ok());
    const absl::Status status = (*writer)->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(status.message(), "'weight' has 4 of 8 bytes"));
    EXPECT_FALSE(std::filesystem::exists(directory.File("a")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Safetensors, RefusesDamagedFilesAndNamesFileAndTensor) {
  const auto header = [](const char* dtype, const char* shape, const char* offsets) {
    return absl::StrCat("{\"w\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                        ",\"data_offsets\":", offsets, "}}");
  };
  const std::string good = header("F32", "[2,2]", "[0,16]");
  struct Case {
    std::string bytes;
    const char* message;
  };
  const Case cases[] = {
      {"", "no safetensors file"},
      {"1234567", "no safetensors file"},
      {LittleEndian(1) + "", "at most 0"},
      {LittleEndian(uint64_t{1} << 63) + good, "at most"},
      {LittleEndian(good.size() + 17) + good + std::string(16, 'x'), "at most"},
      {FileOf("[]", 0), "no object"},
      {FileOf("{\"w\":1}", 0), "'w': has no dtype"},
      {FileOf("{nonsense", 0), "header:1"},
      {FileOf(good, 15), "'w' ends at data byte 16 but the file holds 15"},
      {FileOf(good, 17), "end at data byte 16 but the file holds 17"},
      {FileOf(header("F64", "[2]", "[0,16]"), 16), "\"F64\" is not supported"},
      {FileOf(header("F32", "[2,3]", "[0,16]"), 16), "[2, 3] does not fill"},
      {FileOf(header("F32", "[-2,-2]", "[0,16]"), 16), "shape holds -2"},
      {FileOf(header("F32", "[2.5]", "[0,10]"), 10), "shape holds 2.5"},
      {FileOf(header("F32", "[4294967296,4294967296]", "[0,0]"), 0), "does not fill"},
      {FileOf(header("F32", "4", "[0,16]"), 16), "shape is no list"},
      {FileOf(header("F32", "[4]", "[16,0]"), 16), "no [begin, end]"},
      {FileOf(header("F32", "[4]", "[0]"), 16), "no [begin, end]"},
      {FileOf(header("F32", "[4]", "[4,20]"), 20),
       "'w' begins at data byte 4 and leaves"},
      {FileOf("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
              "\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
              12),
       "'v' begins at data byte 4 and overlaps what ends at 8"},
      {FileOf("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
              "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
              16),
       "w: given twice"},
  };
  for (const Case& test : cases) {
    const TemporaryDirectory directory;
    const auto file =
        SafetensorsFile::Open(directory.Write("m.safetensors", test.bytes));
    ASSERT_FALSE(file.ok()) << test.message;
    EXPECT_TRUE(absl::StrContains(file.status().message(), test.message))
        << file.status();
    EXPECT_TRUE(absl::StrContains(file.status().message(), "m.safetensors"));
  }
}

TEST(Safetensors, ReadingAFileThatShrankIsAnErrorNotACrash) {
  const TemporaryDirectory directory;
  const std::string path = directory.Write(
      "m",
      FileOf("{\"w\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::vector<float> values(4);
  const absl::Status status =
      (*file)->Read(*(*file)->Find("w"), 0, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(status.message(), "tensor 'w'")) << status;
}

TEST(StoredFloats, EverySixteenBitPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float bf16 = FloatFromBf16(half);
    EXPECT_TRUE(std::isnan(bf16) || Bf16FromFloat(bf16) == half) << bits;
    const float f16 = FloatFromF16(half);
    EXPECT_TRUE(std::isnan(f16) || F16FromFloat(f16) == half) << bits;
  }
}

TEST(StoredFloats, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(Bf16FromFloat(1.00390625f), 0x3F80);  // a tie: down to even
  EXPECT_EQ(Bf16FromFloat(1.01171875f), 0x3F82);  // a tie: up to even
  EXPECT_EQ(F16FromFloat(1.00048828125f), 0x3C00);
  EXPECT_EQ(F16FromFloat(1.00146484375f), 0x3C02);
  EXPECT_EQ(F16FromFloat(0x1p-25f), 0x0000);  // half of the smallest: a tie
  EXPECT_EQ(F16FromFloat(0x1.8p-24f), 0x0002);
  EXPECT_EQ(F16FromFloat(-65520.0f), 0xFC00);
  EXPECT_EQ(F16FromFloat(65519.0f), 0x7BFF);
  EXPECT_EQ(Bf16FromFloat(3.4e38f), 0x7F80);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(FloatFromBf16(Bf16FromFloat(nan))));
  EXPECT_TRUE(std::isnan(FloatFromF16(F16FromFloat(-nan))));
}

}  // namespace
}  // namespace strata
