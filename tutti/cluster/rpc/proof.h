#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// What two processes that share a token prove it with, and never send the token itself.
namespace tutti::rpc {

using Digest = std::array<uint8_t, 32>;

// From the kernel. Throws: internal.
Digest random_nonce();

// HMAC-SHA256 under the token, of who proves and of what both have said before. Source: RFC 2104.
Digest prove(std::string_view token, std::string_view who, std::span<const uint8_t> said);

// Takes the same time whatever differs.
bool are_equal(const Digest& one, const Digest& other);

}  // namespace tutti::rpc
