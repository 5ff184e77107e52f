// Requests over HTTP, chunked and compressed ones too: what comes in one piece and byte by byte is the same, within the
// limits; what isn't HTTP is refused with a status of the client's or of what is not there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tutti/serving/content_coding.h"
#include "tutti/serving/http_message.h"

namespace {

using tutti::serving::decode_body;
using tutti::serving::HttpError;
using tutti::serving::HttpLimits;
using tutti::serving::HttpParser;
using tutti::serving::HttpRequest;

constexpr HttpLimits kLimits{.head_bytes = 512, .body_bytes = 256};

// Up to the status that refuses the rest, or 0.
int take_all(HttpParser& parser, std::vector<HttpRequest>& requests) {
  try {
    while (auto request = parser.next()) requests.push_back(std::move(*request));
  } catch (const HttpError& error) {
    return error.status();
  }
  return 0;
}

// What a compressed body is of has a bound, too.
void decode(HttpRequest request) {
  try {
    decode_body(request, 2 * kLimits.body_bytes);
    if (request.body.size() > 2 * kLimits.body_bytes || request.header("content-encoding")) std::abort();
  } catch (const HttpError& error) {
    if (error.status() != 400 && error.status() != 413 && error.status() != 415) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  HttpParser whole(kLimits), in_pieces(kLimits);
  std::vector<HttpRequest> of_whole, of_pieces;
  whole.add(bytes);
  const int refusal = take_all(whole, of_whole);
  int later_refusal = 0;
  for (size_t i = 0; i < size && later_refusal == 0; ++i) {
    in_pieces.add(bytes.substr(i, 1));
    later_refusal = take_all(in_pieces, of_pieces);
  }
  if (refusal != later_refusal || of_whole.size() != of_pieces.size()) std::abort();
  for (size_t i = 0; i < of_whole.size(); ++i)
    if (of_whole[i].path != of_pieces[i].path || of_whole[i].body != of_pieces[i].body ||
        of_whole[i].headers != of_pieces[i].headers || of_whole[i].body.size() > kLimits.body_bytes)
      std::abort();
  for (HttpRequest& request : of_whole) decode(std::move(request));
  if (refusal != 0 && (refusal < 400 || refusal > 505)) std::abort();
  return 0;
}
