#include "tutti/serving/content_coding.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace tutti::serving {
namespace {

enum Format { zlib_format = 15, gzip_format = 31, raw_format = -15 };

std::string deflated(const std::string& text, Format format) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, format, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

HttpRequest request_with(const std::string& coding, std::string body) {
  return {.method = "POST", .path = "/", .headers = {{"content-encoding", coding}}, .body = std::move(body)};
}

std::string decoded(const std::string& coding, std::string body, size_t max_bytes = 1 << 20) {
  HttpRequest request = request_with(coding, std::move(body));
  decode_body(request, max_bytes);
  EXPECT_EQ(request.header("content-encoding"), nullptr);
  return request.body;
}

// The status; 0 where it is taken.
int refusal_of(HttpRequest request, size_t max_bytes) {
  try {
    decode_body(request, max_bytes);
  } catch (const HttpError& error) {
    return error.status();
  }
  return 0;
}

int refusal_of(const std::string& coding, std::string body, size_t max_bytes = 1 << 20) {
  return refusal_of(request_with(coding, std::move(body)), max_bytes);
}

const std::string kLong(200'000, 'x');

TEST(ContentCoding, ABodyBecomesWhatItWas) {
  for (const std::string& text : {std::string("some text"), std::string(), kLong}) {
    for (const char* name : {"gzip", "x-gzip", "GZip"}) EXPECT_EQ(decoded(name, deflated(text, gzip_format)), text);
    EXPECT_EQ(decoded("deflate", deflated(text, zlib_format)), text);
    EXPECT_EQ(decoded("identity", text), text);
  }
  EXPECT_EQ(decoded("gzip", deflated("one, ", gzip_format) + deflated("two", gzip_format)), "one, two");
}

TEST(ContentCoding, ABombIsRefusedAtTheBound) {
  EXPECT_EQ(refusal_of("gzip", deflated(kLong, gzip_format), kLong.size()), 0);
  EXPECT_EQ(refusal_of("gzip", deflated(kLong, gzip_format), kLong.size() - 1), 413);
  EXPECT_EQ(refusal_of("deflate", deflated(std::string(100 << 20, '\0'), zlib_format)), 413);
  const std::string half = deflated(std::string(600'000, 'x'), gzip_format);
  EXPECT_EQ(refusal_of("gzip", half), 0);
  EXPECT_EQ(refusal_of("gzip", half + half), 413);
}

TEST(ContentCoding, RefusesWhatIsNotSoCompressed) {
  const std::string sound = deflated("some text", gzip_format);
  EXPECT_EQ(refusal_of("gzip", "plain text"), 400);
  EXPECT_EQ(refusal_of("gzip", ""), 400);
  EXPECT_EQ(refusal_of("gzip", sound.substr(0, sound.size() - 1)), 400);
  EXPECT_EQ(refusal_of("gzip", sound + "x"), 400);
  EXPECT_EQ(refusal_of("gzip", deflated("some text", zlib_format)), 400);
  EXPECT_EQ(refusal_of("deflate", deflated("some text", raw_format)), 400);
  EXPECT_EQ(refusal_of("deflate", deflated("some text", zlib_format) + "x"), 400);
  std::string damaged = deflated(kLong, gzip_format);
  damaged[damaged.size() - 6] ^= 1;  // its checksum
  EXPECT_EQ(refusal_of("gzip", damaged), 400);
  for (const char* coding : {"br", "zstd", "gzip, gzip", "", "compress"})
    EXPECT_EQ(refusal_of(coding, sound), 415) << coding;
  HttpRequest twice = request_with("gzip", sound);
  twice.headers.emplace_back("content-encoding", "gzip");
  EXPECT_EQ(refusal_of(twice, 1000), 415);
}

TEST(ContentCoding, KnowsWhoTakesGzip) {
  const auto accepts = [](const std::string& header) {
    return accepts_gzip({.headers = {{"accept-encoding", header}}});
  };
  for (const char* header : {"gzip", "deflate, gzip", "br;q=1.0, GZIP;q=0.5", "gzip ; q=0.001", "gzip,deflate"})
    EXPECT_TRUE(accepts(header)) << header;
  for (const char* header : {"", "identity", "gzip;q=0", "gzip; q=0.000", "xgzip", "deflate", ",,,;"})
    EXPECT_FALSE(accepts(header)) << header;
  EXPECT_FALSE(accepts_gzip({}));
}

TEST(ContentCoding, CompressesWhatGetsShorter) {
  HttpResponse response{.body = kLong};
  ASSERT_TRUE(is_worth_gzip(response));
  encode_by_gzip(response);
  EXPECT_LT(response.body.size(), kLong.size() / 100);
  const std::vector<std::pair<std::string, std::string>> headers = {{"Vary", "Accept-Encoding"},
                                                                    {"Content-Encoding", "gzip"}};
  EXPECT_EQ(response.headers, headers);
  EXPECT_EQ(decoded("gzip", response.body), kLong);
  std::string noise;
  for (uint32_t i = 0, state = 1; i < 2000; ++i)
    noise += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  HttpResponse incompressible{.body = noise};
  encode_by_gzip(incompressible);
  EXPECT_EQ(incompressible.body, noise);
  EXPECT_FALSE(is_worth_gzip({.body = "short"}));
  EXPECT_FALSE(is_worth_gzip({.body = kLong, .content_type = "application/octet-stream"}));
}

}  // namespace
}  // namespace tutti::serving
