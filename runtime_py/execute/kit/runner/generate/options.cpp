#include "generate/options.h"

#include <sstream>

#include "generate/ids.h"
#include "interface/flags.h"

namespace edgex {

const char kGenerateUsage[] =
    "edgex-runner generate --model model.pte --vocabulary N --ids ID,ID [flags]\n"
    "  --ids ID,ID         the prompt; --ids-file FILE reads it, - is stdin; spaces, lines or commas between them\n"
    "  --max-new N         the most ids to generate, 128\n"
    "  --temperature T     0, the default, takes the likeliest; more draws\n"
    "  --top-k K --top-p P --repetition-penalty X --seed N\n"
    "                      as edgex generate has them; a seed draws the same ids as there\n"
    "  --eos ID,ID         ids that end a text; --ignore-eos goes on behind them\n"
    "  --context N         how many tokens the cache holds\n"
    "  --vocabulary N      ids are 0 to N - 1\n"
    "  --input NAME:DTYPE:DIMS\n"
    "                      tokens, then the position, as edgex-runner --help says; the most tokens of a run are a chunk\n"
    "  --method NAME --threads N --plugin FILE --sha256 HEX --no-hash --run-id ID as there\n"
    "  --json              the answer as JSON, an object a line\n"
    "A flag that comes twice counts as it comes last, but --input and --plugin. New ids go to stdout as they come,\n"
    "figures to stderr. Exit code: 0; 2 flags or ids; 6 the engine.\n";

namespace {

int64_t parse_whole(const std::string& flag, const std::string& text, int64_t least) {
  const int64_t value = parse_count(flag, text);
  if (value < least) throw BadInput(flag + " " + text + ": expected " + std::to_string(least) + " or more");
  return value;
}

double parse_between(const std::string& flag, const std::string& text, double above, double most) {
  const double value = parse_real(flag, text);
  if (!(value > above && value <= most)) throw BadInput(flag + " " + text + ": it is out of bounds");
  return value;
}

uint64_t parse_seed(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    throw BadInput("--seed " + text + ": expected a whole number of at most 18 digits");
  return std::stoull(text);
}

bool parse_sampling(const std::string& flag, const std::string& value, Sampling& into) {
  if (flag == "--temperature") into.temperature = parse_between(flag, value, -1e-300, 1e300);
  else if (flag == "--top-k") into.top_k = parse_whole(flag, value, 0);
  else if (flag == "--top-p") into.top_p = parse_between(flag, value, 0, 1);
  else if (flag == "--repetition-penalty") into.repetition_penalty = parse_between(flag, value, 0, 1e300);
  else if (flag == "--seed") into.seed = parse_seed(value);
  else return false;
  return true;
}

bool is_whole(const InputSpec& spec) { return spec.dtype == Dtype::kInt64 || spec.dtype == Dtype::kInt32; }

void check_specs(const std::vector<InputSpec>& specs) {
  if (specs.empty() || specs.size() > 2) throw BadInput("--input: a language model takes tokens and a position");
  const InputSpec& tokens = specs[0];
  if (!is_whole(tokens) || tokens.dims.size() != 2 || tokens.dims[1].min != 1 || tokens.dims[1].max < 1)
    throw BadInput("--input " + tokens.name + ": tokens are int64 [1, n], and a single one must be taken");
  if (specs.size() == 2 && (!is_whole(specs[1]) || specs[1].dims.size() > 1))
    throw BadInput("--input " + specs[1].name + ": a position is int64 [1]");
}

}  // namespace

GenerateOptions parse_generate_options(int count, char** arguments) {
  GenerateOptions options;
  for (int at = 2; at < count; at++) {
    const std::string flag = arguments[at];
    if (flag == "--no-hash") options.program.hash = false;
    else if (flag == "--ignore-eos") options.ignore_eos = true;
    else if (flag == "--json") options.json = true;
    else if (flag.rfind("--", 0) != 0) throw BadInput("unknown argument: " + flag);
    else if (at + 1 == count) throw BadInput(flag + " is unknown, or lacks its value");
    else {
      const std::string value = arguments[++at];
      if (flag == "--ids") options.ids = value;
      else if (flag == "--ids-file") options.ids_file = value;
      else if (flag == "--max-new") options.max_new = parse_whole(flag, value, 1);
      else if (flag == "--vocabulary") options.vocabulary = parse_whole(flag, value, 1);
      else if (flag == "--context") options.context = parse_whole(flag, value, 1);
      else if (flag == "--eos") {
        std::istringstream stream(value);
        options.eos = read_ids(stream, flag, {});
      } else if (!parse_sampling(flag, value, options.sampling) && !parse_program_flag(flag, value, options.program))
        throw BadInput("unknown flag: " + flag);
    }
  }
  check_program_flags(options.program);
  check_specs(options.program.specs);
  if (options.vocabulary == 0) throw BadInput("--vocabulary is missing");
  if (options.ids.has_value() == options.ids_file.has_value())
    throw BadInput(options.ids ? "--ids and --ids-file exclude each other" : "--ids is missing: ids of the prompt");
  return options;
}

}  // namespace edgex
