// Loads the .pt2 files that export_from_python.py has made, and compares what they give with what Python got: read_pt2
// FOLDER
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;

static bool same(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.contiguous().view(-1).view(torch::kByte).equal(b.contiguous().view(-1).view(torch::kByte));
}

// Returns how many results differ.
static int compare(const saved_model::LoadedSignature& forward, const std::filesystem::path& file) {
  const auto tensors = checkpoint::load_safetensors(checkpoint::posix_file_system(), file);
  saved_model::Inputs inputs;
  for (const saved_model::Spec& spec : forward.inputs())
    inputs.emplace(spec.name, tensors.at("x" + std::to_string(inputs.size())));
  int number = 0, num_wrong = 0;
  for (const auto& [name, value] : forward(inputs)) {
    const bool is_same = same(value.tensor(), tensors.at("y" + std::to_string(number++)));
    if (!is_same) std::cout << file.filename() << ": " << name << " has other bits\n";
    num_wrong += !is_same;
  }
  return num_wrong + (tensors.contains("y" + std::to_string(number)) ? 1 : 0);
}

int main(int, char** argv) {
  torch::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  int num_models = 0, num_files = 0, num_wrong = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() != ".pt2") continue;
    ++num_models;
    try {
      const auto forward = saved_model::load_pt2(entry.path()).signature("forward");
      for (const char* batch : {"_2", "_5", "_64"}) {
        num_wrong +=
            compare(forward, entry.path().parent_path() / (entry.path().stem().string() + batch + ".safetensors"));
        ++num_files;
      }
    } catch (const std::exception& error) {
      std::cout << entry.path().filename() << ": " << error.what() << '\n';
      ++num_wrong;
    }
  }
  std::cout << num_models << " models of Python's, " << num_files << " batches, " << num_wrong << " wrong\n";
  return num_models >= 12 && num_wrong == 0 ? 0 : 1;
}
