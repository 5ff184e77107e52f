#pragma once

#include <cstddef>

#include "tutti/serving/http_message.h"

// Bodies that are compressed on their way (RFC 9110, 8.4).
namespace tutti::serving {

// Makes the body what it was before its Content-Encoding, gzip or deflate, and takes that header away. Throws:
// HttpError, 415 for another coding, 413 as soon as more than `max_bytes` come out, 400 for what is not so compressed.
void decode_body(HttpRequest& request, size_t max_bytes);

// Whether the request's Accept-Encoding takes gzip.
bool accepts_gzip(const HttpRequest& request);
// Whether it is text, of some length.
bool is_worth_gzip(const HttpResponse& response);
// Compresses the body, where that makes it shorter.
void encode_by_gzip(HttpResponse& response);

}  // namespace tutti::serving
