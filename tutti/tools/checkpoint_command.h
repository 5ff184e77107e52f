#pragma once

#include <filesystem>
#include <iosfwd>

// `tutti checkpoint`: what checkpoints have, without the program that wrote them. Each writes to `out` and returns the
// exit status; all throw what reading the files throws.
namespace tutti::tools {

// The checkpoints of a directory, oldest first: name, step, tensors, bytes; "damaged: …" where the index is. Status: 1
// if one is damaged.
int list_checkpoints(const std::filesystem::path& directory, std::ostream& out);

// The tensors of one checkpoint, with dtype, shape, layout and shards, and its numbers.
int show_checkpoint(const std::filesystem::path& folder, std::ostream& out);

// Reads and checks every byte. Status: 1 for damage, which is printed.
int verify_checkpoint(const std::filesystem::path& folder, std::ostream& out);

// The names that only one of two checkpoints has, and those whose shape, dtype or values differ, with the largest
// absolute difference. Status: 1 if they differ.
int diff_checkpoints(const std::filesystem::path& one, const std::filesystem::path& other, std::ostream& out);

}  // namespace tutti::tools
