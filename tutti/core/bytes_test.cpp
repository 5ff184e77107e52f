#include "tutti/core/bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

TEST(Bytes, ComeBackAsTheyWere) {
  ByteWriter writer;
  writer.number(std::numeric_limits<int64_t>::min());
  writer.text("Zürich");
  ByteReader reader(writer.bytes(), "test");
  EXPECT_EQ(reader.number(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(reader.text(), "Zürich");
  reader.finish();
}

TEST(Bytes, ATruncationIsNoticedByWhatItCuts) {
  ByteWriter writer;
  writer.text("four");
  for (size_t size = 0; size < writer.bytes().size(); ++size) {
    ByteReader reader({writer.bytes().data(), size}, "test");
    EXPECT_EQ(code_of([&] { reader.text(); }), ErrorCode::data_loss) << size;
  }
}

TEST(Bytes, ALengthBeyondTheEndAllocatesNothing) {
  ByteWriter writer;
  writer.number(std::numeric_limits<int64_t>::max());
  ByteReader reader(writer.bytes(), "reading the state");
  EXPECT_EQ(error_of([&] { reader.text(); }),
            "data_loss: reading the state: byte 0 has 9223372036854775807, which must be 0 to 0; what was saved is "
            "damaged, or belongs to something else");
}

TEST(Bytes, WhatBelongsToNothingIsNoticed) {
  ByteWriter writer;
  writer.number(1);
  EXPECT_EQ(code_of([&] { ByteReader(writer.bytes(), "test").finish(); }), ErrorCode::data_loss);
}

}  // namespace
}  // namespace tutti
