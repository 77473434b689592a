package dev.edgex.model.text

import java.nio.ByteBuffer
import java.nio.CharBuffer
import java.nio.charset.CodingErrorAction
import java.text.Normalizer

/** A token that is looked for in the text itself; [isSpecial] ones are no text when they are generated. */
data class AddedToken(val token: String, val id: Int, val isSpecial: Boolean)

/**
 * How text becomes ids: cut into words by [splits], one expression after the other, then bytes are joined by the merges.
 * [composes] joins letters and accents first (NFC), [leadingSpace] lets a text begin with a space, and [wholeWords] takes a word
 * that the vocabulary has as it is.
 */
data class BytePairFormat(
    val vocabularyFile: String,
    val mergesFile: String,
    val splits: List<String>,
    val composes: Boolean,
    val leadingSpace: Boolean,
    val wholeWords: Boolean,
    val added: List<AddedToken>,
)

/** The byte-level tokenizer of GPT-2 and most decoders since (Sennrich et al., 2016; Radford et al., 2019). */
class BytePairs(private val format: BytePairFormat, private val vocabulary: List<String>, merges: List<String>) {
    private val places = HashMap<String, Int>(vocabulary.size * 2).apply { vocabulary.forEachIndexed { id, token -> put(token, id) } }
    private val ranks = HashMap<String, Int>(merges.size * 2).apply { merges.forEachIndexed { rank, pair -> put(pair, rank) } }
    private val splits = format.splits.map(::Regex)
    private val added = format.added.associateBy { it.token }
    private val texts = format.added.associate { it.id to if (it.isSpecial) null else it.token }

    // Where one begins with another, the longer one is meant.
    private val search = added.keys.sortedByDescending { it.length }.joinToString("|", transform = Regex::escape).let(::Regex)

    fun encode(text: String): List<Int> {
        if (added.isEmpty()) return encodePlain(text)
        return isolate(text, search).flatMap { part -> added[part]?.let { listOf(it.id) } ?: encodePlain(part) }
    }

    private fun encodePlain(text: String): List<Int> {
        val composed = if (format.composes) Normalizer.normalize(text, Normalizer.Form.NFC) else text
        val begun = if (format.leadingSpace && !composed.startsWith(' ')) " $composed" else composed
        return splits.fold(listOf(begun)) { words, split -> words.flatMap { isolate(it, split) } }.flatMap(::encodeWord)
    }

    /** The matches and what is between them, in order. */
    private fun isolate(text: String, search: Regex): List<String> {
        val parts = ArrayList<String>()
        var end = 0
        for (match in search.findAll(text)) {
            parts += text.substring(end, match.range.first)
            parts += match.value
            end = match.range.last + 1
        }
        return (parts + text.substring(end)).filter { it.isNotEmpty() }
    }

    private fun encodeWord(word: String): List<Int> {
        val letters = word.encodeToByteArray().map { LETTERS[it.toInt() and 0xff] }
        if (format.wholeWords) places[letters.joinToString("")]?.let { return listOf(it) }
        val pieces = letters.mapTo(ArrayList()) { it.toString() }
        while (pieces.size > 1) {
            val at = (0 until pieces.size - 1).minBy { rankOf(pieces, it) }
            if (rankOf(pieces, at) == Int.MAX_VALUE) break
            pieces[at] += pieces.removeAt(at + 1)
        }
        return pieces.map(places::getValue)
    }

    private fun rankOf(pieces: List<String>, at: Int): Int = ranks["${pieces[at]} ${pieces[at + 1]}"] ?: Int.MAX_VALUE

    /** Ids to text, one after the other: what each adds, never half a character. */
    inner class Decoder {
        private val decoder = Charsets.UTF_8.newDecoder()
            .onMalformedInput(CodingErrorAction.REPLACE).onUnmappableCharacter(CodingErrorAction.REPLACE)
        private var waiting = ByteArray(0)

        fun add(id: Int): String {
            if (id in texts && texts[id] == null) return ""
            val bytes = ByteBuffer.wrap(waiting + bytesOf(texts[id] ?: vocabulary.getOrElse(id) { "" }))
            val text = CharBuffer.allocate(bytes.remaining() + 1)
            decoder.decode(bytes, text, false)
            waiting = ByteArray(bytes.remaining()).also { bytes.get(it) }
            return text.flip().toString()
        }
    }

    private fun bytesOf(token: String): ByteArray {
        val bytes = token.map { BYTES[it] ?: return token.encodeToByteArray() }
        return bytes.toByteArray()
    }

    private companion object {
        /** A letter for each byte: itself where it can be printed, else one from 256 on. */
        val LETTERS: List<Char> = run {
            val printable = ('!'..'~') + ('\u00a1'..'\u00ac') + ('\u00ae'..'\u00ff')
            var next = 256
            List(256) { byte -> if (byte.toChar() in printable) byte.toChar() else (next++).toChar() }
        }
        val BYTES = LETTERS.withIndex().associate { (byte, letter) -> letter to byte.toByte() }
    }
}
