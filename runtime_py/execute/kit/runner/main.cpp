// Runs a .pte without Python or torch: golden cases, outputs, samples. The answer is JSON on stdout, an object a line.
// `generate` goes on with a text of ids, with a language model's.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "generate/generate.h"
#include "generate/options.h"
#include "interface/answer.h"
#include "interface/options.h"
#include "run/compare.h"
#include "run/model.h"
#include "run/open.h"
#include "run/sampling.h"

namespace edgex {

namespace {

constexpr int kUsageError = 2, kDiffers = 4, kEngineError = 6;

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// All steps of a case, read ahead: reading is no part of a run.
using Steps = std::vector<std::vector<Tensor>>;

struct Loaded {
  std::vector<Steps> inputs, expected;  // of each case
};

std::ifstream open_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw BadInput("cannot read " + path + ": " + std::strerror(errno));
  return stream;
}

Loaded read_cases(const Options& options) {
  Loaded loaded;
  std::ifstream inputs = open_file(options.inputs), expected;
  if (!options.expected.empty()) expected = open_file(options.expected);
  for (const Case& one : options.cases) {
    Steps given, wanted;
    for (int64_t step = 0; step < one.steps; step++) {
      given.push_back(read_tensors(inputs));
      if (one.is_compared()) wanted.push_back(read_tensors(expected));
    }
    loaded.inputs.push_back(std::move(given));
    loaded.expected.push_back(std::move(wanted));
  }
  return loaded;
}

class Player {
 public:
  Player(const Options& options, Model& model, const std::vector<Steps>& expected) : options_(options), model_(model) {
    // The first case that is compared is the example: what is ordinary for each output.
    const auto example = std::find_if(expected.begin(), expected.end(), [](const Steps& one) { return !one.empty(); });
    if (options.quantized_tolerance && example != expected.end())
      for (const Tensor& output : example->front()) ordinary_.push_back(root_mean_square(output));
  }

  bool failed() const { return failed_; }

  void play(const Case& one, const Steps& inputs, const Steps& expected, std::ofstream& outputs) {
    model_.reset();
    for (size_t step = 0; step < inputs.size(); step++) {
      const std::string name =
          inputs.size() == 1 ? one.name : one.name + ", step " + std::to_string(step + 1);
      if (one.kind == "refuse") {
        expect_refusal(name, inputs[step]);
        continue;
      }
      check_inputs(options_.specs, inputs[step]);
      model_.prepare(inputs[step]);
      const auto started = std::chrono::steady_clock::now();
      model_.run();
      if (!ran_) Line("first").real("seconds", since(started)).whole("peak_rss_bytes", peak_rss_bytes());
      ran_ = true;
      const std::vector<Tensor> found = model_.outputs();
      if (one.kind == "run")
        write_tensors(outputs, found);
      else
        judge(name, one, expected[step], found);
    }
  }

 private:
  void expect_refusal(const std::string& name, const std::vector<Tensor>& inputs) {
    std::string why;
    try {
      check_inputs(options_.specs, inputs);
    } catch (const BadInput& error) {
      why = error.what();
    }
    const bool refused = !why.empty();
    failed_ = failed_ || !refused;
    Line("case")
        .text("name", name)
        .text("verdict", refused ? "pass" : "fail")
        .text("reason", refused ? "refused: " + why : "it was taken although the size is outside the bounds");
  }

  void judge(const std::string& name, const Case& one, const std::vector<Tensor>& expected,
             const std::vector<Tensor>& found) {
    const bool quantized = one.kind == "quantized";
    Tolerance tolerance = quantized ? *options_.quantized_tolerance : options_.tolerance;
    if (one.min_sqnr_db) tolerance = {*one.min_sqnr_db, {}, {}, tolerance.min_equal};
    if (expected.size() != found.size()) throw BadInput(name + ": another number of outputs is expected");
    for (size_t index = 0; index < found.size(); index++) {
      const Verdict verdict = compare_output(expected[index], found[index], tolerance, quantized ? ordinary_.at(index) : 0);
      failed_ = failed_ || verdict.verdict == "fail";
      Line("case")
          .text("name", name)
          .text("output", found[index].name)
          .text("reference", quantized ? "quantized" : "eager")
          .text("verdict", verdict.verdict)
          .text("reason", verdict.reason)
          .real("max_abs_error", verdict.max_abs_error)
          .real("sqnr_db", verdict.sqnr_db)
          .real("reference_max", verdict.reference_max);
    }
  }

  const Options& options_;
  Model& model_;
  std::vector<double> ordinary_;  // root mean square of each output, where a tolerance needs it
  bool failed_ = false, ran_ = false;
};

void measure(const Options& options, Model& model, const Steps& steps) {
  Workload workload;
  workload.has_state = !options.state.empty();
  workload.steps = workload.has_state ? static_cast<int64_t>(steps.size()) : 1;
  workload.reset = [&] { model.reset(); };
  workload.prepare = [&](int64_t step) { model.prepare(steps[static_cast<size_t>(step)]); };
  workload.call = [&] { model.run(); };
  Line("progress").text("stage", "warm up").text("detail", options.warmup < 0 ? "until the latency settles" : "");
  const WarmUp warm = warm_up(workload, options.warmup);
  Line("warmup").whole("runs", warm.calls).real("seconds", warm.seconds).truth("settled", warm.settled);
  const RoundPlan plan = plan_rounds(workload, warm, options.runs);
  Line("plan")
      .whole("samples", plan.samples)
      .whole("rounds", plan.rounds)
      .whole("calls_per_sample", plan.calls_per_sample)
      .whole("steps", workload.steps);
  for (int64_t round = 0, left = plan.samples; round < plan.rounds; round++) {
    const int64_t samples = std::min(plan.samples_per_round, left);
    const std::vector<double> seconds = sample_round(workload, plan, samples);
    left -= samples;
    Line("round").reals("seconds", seconds);
  }
}

int run(const Options& options) {
  tell_start(options);
  const Loaded cases = read_cases(options);
  const std::unique_ptr<Model> loaded = open_model(options, true).model;
  Model& model = *loaded;
  std::ofstream outputs;
  if (!options.outputs.empty()) outputs.open(options.outputs, std::ios::binary);
  Player player(options, model, cases.expected);
  for (size_t at = 0; at < options.cases.size(); at++)
    player.play(options.cases[at], cases.inputs[at], cases.expected[at], outputs);
  if (!options.outputs.empty() && !outputs.flush()) throw BadInput("cannot write " + options.outputs);
  if (options.runs != 0) measure(options, model, cases.inputs[0]);
  if (!options.etdump.empty()) model.write_etdump(options.etdump);
  Line("done").text("run_id", options.run_id).whole("peak_rss_bytes", peak_rss_bytes());
  return player.failed() ? kDiffers : 0;
}

int fail(bool is_json, const char* kind, const std::string& what, int code, int exit_code) {
  if (is_json)
    Line("error").text("kind", kind).text("what", what).whole("code", code);
  else
    std::fprintf(stderr, "error: %s%s\n", exit_code == kEngineError ? "could not " : "", what.c_str());
  return exit_code;
}

}  // namespace

}  // namespace edgex

int main(int count, char** arguments) {
  using namespace edgex;
  if (count == 2 && std::strcmp(arguments[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  // Starts, which shows that all libraries are found: that is what is asked.
  if (count == 2 && std::strcmp(arguments[1], "--version") == 0) {
    std::puts("edgex-runner 1, executorch " EDGEX_EXECUTORCH);
    return 0;
  }
  const bool generates = count > 1 && std::strcmp(arguments[1], "generate") == 0;
  if (generates && count == 3 && std::strcmp(arguments[2], "--help") == 0) {
    std::fputs(kGenerateUsage, stdout);
    return 0;
  }
  bool is_json = !generates;
  for (int at = 2; at < count; at++) is_json = is_json || std::strcmp(arguments[at], "--json") == 0;
  try {
    if (!generates) return run(parse_options(count, arguments));
    generate(parse_generate_options(count, arguments));
    return 0;
  } catch (const BadInput& error) {
    return fail(is_json, "input", error.what(), 0, kUsageError);
  } catch (const EngineFailure& error) {
    return fail(is_json, "engine", error.what(), error.code, kEngineError);
  } catch (const std::exception& error) {
    return fail(is_json, "engine", error.what(), 0, kEngineError);
  }
}
