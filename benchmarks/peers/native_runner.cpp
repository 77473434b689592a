// Runs a .pte without Python or torch, and speaks the protocol of `benchmarks/peers/serving.py`.
// native_runner MODEL.pte INPUTS.bin OUTPUTS.bin [BACKEND.so]: prints `ready {...}`, then answers each number on stdin
// by that many runs. INPUTS.bin holds the inputs' bytes one after the other, OUTPUTS.bin gets the outputs'.
#include <dlfcn.h>
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <vector>

using executorch::extension::from_blob;
using executorch::extension::Module;
using executorch::extension::TensorPtr;
using executorch::runtime::EValue;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int fail(const char* what, int code) {
  std::fprintf(stderr, "%s: 0x%x\n", what, static_cast<unsigned>(code));
  return 6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return fail("usage: native_runner MODEL INPUTS OUTPUTS [BACKEND]", argc);
  if (argc > 4 && dlopen(argv[4], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 7;
  }
  const double started = now();
  Module module(argv[1], Module::LoadMode::Mmap);
  const auto meta = module.method_meta("forward");
  if (!meta.ok()) return fail("load", static_cast<int>(meta.error()));
  std::vector<std::vector<char>> memory;
  std::vector<TensorPtr> tensors;
  std::vector<EValue> inputs;
  std::ifstream file(argv[2], std::ios::binary);
  for (size_t i = 0; i < meta->num_inputs(); i++) {
    const auto info = meta->input_tensor_meta(i);
    memory.emplace_back(info->nbytes());
    if (!file.read(memory.back().data(), static_cast<std::streamsize>(info->nbytes()))) return fail("inputs", 0);
    std::vector<executorch::aten::SizesType> sizes(info->sizes().begin(), info->sizes().end());
    tensors.push_back(from_blob(memory.back().data(), sizes, info->scalar_type()));
    inputs.emplace_back(*tensors.back());
  }
  const auto loaded_method = module.load_method("forward");
  if (loaded_method != executorch::runtime::Error::Ok) return fail("load", static_cast<int>(loaded_method));
  const double loaded = now();
  const auto first = module.execute("forward", inputs);
  if (!first.ok()) return fail("run", static_cast<int>(first.error()));
  const double ran = now();
  std::ofstream output(argv[3], std::ios::binary);
  for (const EValue& value : *first) {
    const auto tensor = value.toTensor();
    output.write(static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  }
  output.close();
  std::printf("ready {\"prepare_seconds\": %.6f, \"first_seconds\": %.6f}\n", loaded - started, ran - loaded);
  std::fflush(stdout);
  int count;
  while (std::cin >> count) {
    for (int i = 0; i < count; i++) {
      const double before = now();
      const auto result = module.execute("forward", inputs);
      const double after = now();
      if (!result.ok()) return fail("run", static_cast<int>(result.error()));
      std::printf("%s%.9f", i == 0 ? "[" : ", ", after - before);
    }
    std::printf("]\n");
    std::fflush(stdout);
  }
}
