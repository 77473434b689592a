#include "generate/generate.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "generate/decoder.h"
#include "generate/ids.h"
#include "interface/answer.h"
#include "run/open.h"

namespace edgex {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What edgex.runtime.generation.generator.Spent holds, and why the text ended.
struct Spent {
  double load = 0, prefill = 0, first = 0, decode = 0, sampling = 0;
  int64_t prompt = 0, decoded = 0, written = 0;
  const char* finish = "length";
};

std::vector<int64_t> read_prompt(const GenerateOptions& options) {
  const IdLimits limits{options.vocabulary, options.context};
  std::vector<int64_t> ids;
  if (options.ids) {
    std::istringstream stream(*options.ids);
    ids = read_ids(stream, "--ids", limits);
  } else if (*options.ids_file == "-") {
    ids = read_ids(std::cin, "stdin", limits);
  } else {
    std::ifstream stream(*options.ids_file, std::ios::binary);
    if (!stream) throw BadInput("cannot read " + *options.ids_file + ": " + std::strerror(errno));
    ids = read_ids(stream, *options.ids_file, limits);
  }
  if (ids.empty()) throw BadInput("the prompt is empty: give at least one id");
  return ids;
}

void write_id(int64_t id, double seconds, bool is_first, bool json) {
  if (json) {
    Line("token").whole("id", id).real("seconds", seconds);
    return;
  }
  std::printf("%s%lld", is_first ? "" : ",", static_cast<long long>(id));
  std::fflush(stdout);
}

// As edgex.runtime.generation.generator: an id that ends the text is not written, and the last one written is not run,
// so that there may be one more than the cache has room for.
void write_text(Decoder& decoder, Sampler& sampler, const GenerateOptions& options, std::vector<int64_t> text,
                Spent& spent) {
  const auto ends = [&](int64_t id) {
    return !options.ignore_eos && std::find(options.eos.begin(), options.eos.end(), id) != options.eos.end();
  };
  const auto began = Clock::now();
  Tensor scores = decoder.run(text, 0);
  spent.prefill = since(began);
  auto cached = static_cast<int64_t>(text.size());
  for (int64_t number = 0; number < options.max_new; number++) {
    if (number) {
      if (options.context && cached >= *options.context) {
        spent.finish = "context";
        return;
      }
      const auto started = Clock::now();
      scores = decoder.run({text.back()}, cached++);
      spent.decode += since(started);
      spent.decoded++;
    }
    const auto started = Clock::now();
    const int64_t id = sampler.choose(scores, static_cast<size_t>(options.vocabulary), text);
    spent.sampling += since(started);
    if (!number) spent.first = since(began);
    if (ends(id)) {
      spent.finish = "eos";
      return;
    }
    text.push_back(id);
    write_id(id, since(began), number == 0, options.json);
    spent.written++;
  }
}

const char* describe(const std::string& finish) {
  if (finish == "eos") return "the model ended the text";
  return finish == "context" ? "the context is full" : "as many as --max-new allows";
}

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

void tell_people(const Spent& spent, const Sampler& sampler) {
  if (spent.written) std::puts("");
  std::fflush(stdout);
  std::fprintf(stderr, "[%lld tokens read at %.0f tokens/s, the first after %.1f ms, %lld written",
               static_cast<long long>(spent.prompt), rate(spent.prompt, spent.prefill), 1e3 * spent.first,
               static_cast<long long>(spent.written));
  if (spent.decoded) std::fprintf(stderr, " at %.1f tokens/s", rate(spent.decoded, spent.decode));
  std::fprintf(stderr, ", after %.2f s of loading; %s", spent.load, describe(spent.finish));
  if (sampler.seed()) std::fprintf(stderr, "; seed %llu", static_cast<unsigned long long>(*sampler.seed()));
  std::fputs("]\n", stderr);
}

void tell_programs(const Spent& spent, const Sampler& sampler) {
  std::optional<long long> seed;
  if (sampler.seed()) seed = static_cast<long long>(*sampler.seed());
  Line("generated")
      .text("finish", spent.finish)
      .whole("prompt_tokens", spent.prompt)
      .whole("tokens", spent.written)
      .whole("decoded", spent.decoded)
      .whole("seed", seed)
      .real("load_seconds", spent.load)
      .real("prefill_seconds", spent.prefill)
      .real("first_token_seconds", spent.first)
      .real("decode_seconds", spent.decode)
      .real("sampling_seconds", spent.sampling);
}

}  // namespace

void generate(const GenerateOptions& options) {
  if (options.json) tell_start(options.program);
  const std::vector<int64_t> prompt = read_prompt(options);
  const Opened opened = open_model(options.program, options.json);
  Decoder decoder(*opened.model, options);
  Sampler sampler(options.sampling);
  Spent spent;
  spent.load = opened.seconds;
  spent.prompt = static_cast<int64_t>(prompt.size());
  write_text(decoder, sampler, options, prompt, spent);
  if (!options.json) return tell_people(spent, sampler);
  tell_programs(spent, sampler);
  Line("done").text("run_id", options.program.run_id).whole("peak_rss_bytes", peak_rss_bytes());
}

}  // namespace edgex
