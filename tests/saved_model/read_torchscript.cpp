// Runs the TorchScript files that write_models has made, without tutti, and compares the results: read_torchscript
// FOLDER
#include <ATen/Parallel.h>
#include <torch/script.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

namespace {

namespace fs = std::filesystem;

// What stands behind "KEY": in a part of a safetensors header.
std::string member(const std::string& text, const std::string& key, const std::string& end) {
  const size_t begin = text.find('"' + key + "\":") + key.size() + 3;
  return text.substr(begin, text.find(end, begin) - begin);
}

std::vector<int64_t> numbers(std::string text) {
  for (char& c : text)
    if (c < '0' || c > '9') c = ' ';
  std::istringstream in(text);
  return {std::istream_iterator<int64_t>(in), {}};
}

std::map<std::string, at::Tensor> read_tensors(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string header(length, ' ');
  in.read(header.data(), static_cast<std::streamsize>(length));
  std::map<std::string, at::Tensor> tensors;
  for (const std::string name : {"x0", "x1", "y0"}) {
    if (header.find('"' + name + '"') == std::string::npos) continue;
    const std::string entry = member(header, name, "}");
    const auto places = numbers(member(entry, "data_offsets", "]"));
    at::Tensor tensor = at::empty(numbers(member(entry, "shape", "]")),
                                  entry.find("I64") == std::string::npos ? at::kFloat : at::kLong);
    in.seekg(static_cast<std::streamoff>(8 + length) + places[0]);
    in.read(static_cast<char*>(tensor.mutable_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    tensors[name] = tensor;
  }
  return tensors;
}

}  // namespace

int main(int, char** argv) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  int num_models = 0, num_wrong = 0;
  for (const auto& entry : fs::directory_iterator(argv[1])) {
    if (!entry.is_directory()) continue;
    torch::jit::Module model = torch::jit::load(entry.path() / "f.pt");
    ++num_models;
    for (int turn = 0; turn < 3; ++turn) {  // the third call is optimized
      for (const char* batch : {"1", "5", "64"}) {
        const auto tensors = read_tensors(entry.path().string() + '_' + batch + ".safetensors");
        std::vector<c10::IValue> inputs = {tensors.at("x0")};
        if (tensors.contains("x1")) inputs.emplace_back(tensors.at("x1"));
        const at::Tensor seen = model.forward(inputs).toTensor();
        if (seen.equal(tensors.at("y0"))) continue;
        ++num_wrong;
        std::cout << entry.path().filename() << " batch " << batch << " turn " << turn << ": "
                  << (seen - tensors.at("y0")).abs().max().item<double>() << '\n';
      }
    }
  }
  std::cout << num_models << " models, " << num_wrong << " wrong results\n";
  return num_models >= 11 && num_wrong == 0 ? 0 : 1;
}
