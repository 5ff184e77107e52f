#include "tutti/serving/http_message.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::serving {
namespace {

HttpParser parser_of(std::string_view bytes, HttpLimits limits = {}) {
  HttpParser parser(limits);
  parser.add(bytes);
  return parser;
}

// The status that refuses the bytes; 0 where they are taken or not whole.
int refusal_status(std::string_view bytes, HttpLimits limits = {}) {
  HttpParser parser = parser_of(bytes, limits);
  try {
    parser.next();
  } catch (const HttpError& error) {
    return error.status();
  }
  return 0;
}

constexpr std::string_view kPost =
    "POST /v1/models/m:predict?x=1 HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:  3 \r\n\r\nabcGET / HTTP/1.1\r\nHost: "
    "a\r\n\r\n";

std::string chunked(const std::string& chunks, const std::string& coding = "chunked") {
  return "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + coding + "\r\n\r\n" + chunks;
}

TEST(HttpParser, JoinsChunks) {
  const std::string bytes = chunked("3\r\nabc\r\n00A;x=\"y\"\r\n\r\n23456\r\n8\r\n0\r\nChecksum: 1\r\n\r\n") +
                            chunked("0\r\n\r\n", "CHUNKED") + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
  HttpParser whole = parser_of(bytes), in_pieces({});
  std::vector<HttpRequest> got;
  while (auto request = whole.next()) got.push_back(std::move(*request));
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].body, "abc\r\n23456\r\n8");
  EXPECT_EQ(got[0].header("checksum"), nullptr);
  EXPECT_EQ(got[1].body, "");
  EXPECT_EQ(got[2].path, "/next");
  EXPECT_FALSE(whole.is_within_request());
  size_t count = 0;
  for (const char c : bytes) {
    in_pieces.add({&c, 1});
    while (const auto request = in_pieces.next()) EXPECT_EQ(request->body, got.at(count++).body);
  }
  EXPECT_EQ(count, 3U);
}

TEST(HttpParser, CountsTheChunksThatItHolds) {
  HttpParser parser = parser_of(chunked("64\r\n" + std::string(90, 'a')));
  EXPECT_FALSE(parser.next());
  EXPECT_EQ(parser.num_bytes(), 90U);
  EXPECT_TRUE(parser.is_within_request());
}

TEST(HttpParser, ManyChunksOfOneByteTakeNoLongerThanTheirBytes) {
  std::string chunks;
  for (int i = 0; i < 1'000'000; ++i) chunks += "1\r\na\r\n";
  EXPECT_EQ(parser_of(chunked(chunks + "0\r\n\r\n")).next()->body.size(), 1'000'000U);
}

TEST(HttpParser, RefusesChunksThatAreNone) {
  for (const char* chunks :
       {"\r\n", "x\r\n", "-1\r\n", "+1\r\na\r\n", "0x1\r\na\r\n", " 1\r\na\r\n", "1 \r\na\r\n", ";a\r\n", "1\na\r\n",
        "1\r\nab\r\n", "1\r\na\n0\r\n\r\n", "1;\x01\r\na", "0\r\nno header\r\n\r\n", "0\r\n: a\r\n\r\n"})
    EXPECT_EQ(refusal_status(chunked(chunks)), 400) << chunks;
  EXPECT_EQ(refusal_status(chunked("1;" + std::string(300, 'a'))), 400);
  EXPECT_EQ(refusal_status(chunked("ffffffffffffffff\r\n")), 413);
  EXPECT_EQ(refusal_status(chunked("10000000000000000\r\n")), 413);
  EXPECT_EQ(refusal_status(chunked("5\r\n"), {.body_bytes = 4}), 413);
  EXPECT_EQ(refusal_status(chunked("3\r\nabc\r\n2\r\n"), {.body_bytes = 4}), 413);
  EXPECT_EQ(refusal_status(chunked("2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"), {.body_bytes = 4}), 0);
  std::string trailers = "0\r\n";
  for (int i = 0; i < 100; ++i) trailers += "A: b\r\n";
  EXPECT_EQ(refusal_status(chunked(trailers), {.head_bytes = 100}), 431);
}

TEST(HttpParser, TakesRequestsOneAfterTheOther) {
  HttpParser parser = parser_of(kPost);
  const auto first = parser.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->method, "POST");
  EXPECT_EQ(first->path, "/v1/models/m:predict");
  EXPECT_EQ(first->body, "abc");
  EXPECT_EQ(*first->header("content-length"), "3");
  EXPECT_TRUE(first->keeps_connection);
  const auto second = parser.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->path, "/");
  EXPECT_FALSE(parser.next());
  EXPECT_FALSE(parser.is_within_request());
}

TEST(HttpParser, TakesWhatComesByteByByte) {
  HttpParser parser({});
  int count = 0;
  for (const char c : kPost) {
    parser.add({&c, 1});
    while (const auto request = parser.next()) ++count;
  }
  EXPECT_EQ(count, 2);
}

TEST(HttpParser, KnowsWhoKeepsAConnection) {
  const auto keeps = [](std::string_view bytes) { return parser_of(bytes).next()->keeps_connection; };
  EXPECT_TRUE(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(HttpParser, TellsOnceThatABodyIsWaitedFor) {
  HttpParser parser = parser_of("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_FALSE(parser.next());
  EXPECT_TRUE(parser.take_expects_continue());
  EXPECT_FALSE(parser.take_expects_continue());
  parser.add("ab");
  EXPECT_EQ(parser.next()->body, "ab");
}

TEST(HttpParser, RefusesWhatCouldHideARequestInAnother) {
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400);
  EXPECT_EQ(refusal_status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(refusal_status(chunked("", "chunked\r\nTransfer-Encoding: chunked")), 400);
  for (const char* coding : {"gzip, chunked", "chunked, identity", "identity", "xchunked", ""})
    EXPECT_EQ(refusal_status(chunked("", coding)), 501) << coding;
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n"), 400);
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"), 400);
  EXPECT_EQ(refusal_status("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"), 400);
  EXPECT_EQ(refusal_status("GET / HTTP/1.1\r\n\r\n"), 400);
}

TEST(HttpParser, RefusesWhatIsTooLargeBeforeItIsThere) {
  const std::string huge = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n";
  EXPECT_EQ(refusal_status(huge), 413);
  EXPECT_EQ(refusal_status("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", {.body_bytes = 10}), 413);
  EXPECT_EQ(refusal_status("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a')), 431);
}

TEST(HttpParser, RefusesWhatIsNoHttp) {
  for (const std::string_view line : {"\x16\x03\x01", "GET", "GET /", "GET  HTTP/1.1", "G\tT / HTTP/1.1",
                                      "GET x HTTP/1.1", "GET /\x01 HTTP/1.1", "GET / HTTQ/1.1"})
    EXPECT_EQ(refusal_status(std::string(line) + "\r\nHost: a\r\n\r\n"), 400) << line;
  EXPECT_EQ(refusal_status("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
}

TEST(HttpResponse, IsWrittenWithItsLength) {
  EXPECT_EQ(to_bytes({.body = "{}"}, true),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(error_response(400, "bad \"byte\" \xff").body, "{\"error\": \"bad \\\"byte\\\" ?\"}\n");
}

TEST(HttpResponse, AnErrorIsCutBetweenLetters) {
  std::string long_text = "x";
  for (int i = 0; i < 1000; ++i) long_text += "\u00e9";
  const std::string body = error_response(400, long_text).body;
  EXPECT_EQ(body.size(), std::string("{\"error\": \"\"}\n").size() + 1023);
  EXPECT_TRUE(body.ends_with("\u00e9\"}\n"));
}

}  // namespace
}  // namespace tutti::serving
