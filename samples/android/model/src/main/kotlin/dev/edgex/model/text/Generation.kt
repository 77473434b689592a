package dev.edgex.model.text

import dev.edgex.model.EdgeModel
import dev.edgex.model.ModelThread
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorSpec

/**
 * What a language model takes: ids below [vocabulary], [context] of them (null where it forgets the oldest itself), at most
 * [chunk] in one run. A text begins with [begins] and is over at one of [ends]; [sampling] is what its makers advise.
 */
data class GenerationFormat(
    val vocabulary: Int,
    val context: Int?,
    val chunk: Int,
    val begins: List<Int>,
    val ends: Set<Int>,
    val sampling: Sampling,
    val tokenizer: BytePairFormat?,
)

/** A generated token; [text] is what it adds, null where the library has no tokenizer for the model. */
data class Token(val id: Int, val text: String?)

/** Why a text ended: by an id that ends texts, with as many tokens as were asked for, or because the model holds no more. */
enum class Finish { END, LENGTH, CONTEXT }

/**
 * Generates a text that begins with [prompt], and hands over each token as soon as it is known; the id that ends it is none.
 *
 * It can be given up between two tokens, by cancelling or by an exception of [onToken]. A model holds one text: another
 * call that uses it ends this one with an [IllegalStateException].
 */
suspend fun EdgeModel.generate(
    prompt: List<Int>,
    maxNew: Int,
    sampling: Sampling = generation.sampling,
    onToken: suspend (Token) -> Unit,
): Finish {
    val format = generation
    require(prompt.isNotEmpty() && prompt.all { it in 0 until format.vocabulary }) {
        "a prompt is at least one id from 0 to ${format.vocabulary - 1}"
    }
    require(format.context == null || prompt.size <= format.context) {
        "${prompt.size} tokens do not fit the context of ${format.context}"
    }
    val text = ArrayList(prompt)
    val sampler = Sampler(sampling)
    val decoder = ModelThread.run { bytePairs?.Decoder() }
    beginText(text)
    var cached = 0
    repeat(maxNew) {
        if (format.context != null && text.size > format.context) return Finish.CONTEXT
        var scores: TensorData? = null
        for (chunk in text.subList(cached, text.size).chunked(format.chunk)) {
            scores = run(inputsOf(chunk, cached), text).outputs.single()
            cached += chunk.size
        }
        val last = checkNotNull(scores)
        val id = ModelThread.run { sampler.choose(lastScores(last, format.vocabulary), text) }
        if (id in format.ends) return Finish.END
        text += id
        onToken(Token(id, decoder?.add(id)))
    }
    return Finish.LENGTH
}

/** A text as the ids of a prompt; reads the vocabulary when first called. */
suspend fun EdgeModel.idsOf(text: String): List<Int> = ModelThread.run {
    generation.begins + requireNotNull(bytePairs) { "${manifest.model.name} has no tokenizer in this library" }.encode(text)
}

private fun EdgeModel.inputsOf(ids: List<Int>, position: Int): List<TensorData> {
    val (tokens, places) = manifest.inputs.map { it.spec }.let { it.first() to it.getOrNull(1) }
    return listOfNotNull(wholes(tokens, intArrayOf(1, ids.size), ids), places?.let { positions(it, position, ids.size) })
}

/** Of each token where the model wants that, else of the first. */
private fun positions(spec: TensorSpec, first: Int, count: Int): TensorData {
    val size = if (spec.dims.singleOrNull()?.isDynamic == true) count else 1
    return wholes(spec, IntArray(spec.dims.size) { size }, List(size) { first + it })
}

private fun wholes(spec: TensorSpec, shape: IntArray, values: List<Int>): TensorData =
    TensorData.allocate(spec.dtype, shape).also { tensor -> values.forEachIndexed { at, value -> tensor[at] = value.toDouble() } }

/** Of the last token; some models give those of all. */
private fun lastScores(scores: TensorData, vocabulary: Int): DoubleArray = DoubleArray(vocabulary) { scores[scores.size - vocabulary + it] }
