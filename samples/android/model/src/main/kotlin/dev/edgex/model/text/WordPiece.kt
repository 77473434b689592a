package dev.edgex.model.text

import java.text.Normalizer
import java.util.Locale

/**
 * How text becomes inputs: [ids], [mask] and [types] are places of inputs, null where the model has no such; [opens] and
 * [closes] are put around a text, and [padding] behind it where the size is fixed.
 */
data class TextFormat(
    val ids: Int,
    val mask: Int?,
    val types: Int?,
    val vocabularyFile: String,
    val unknown: String,
    val prefix: String,
    val longestWord: Int,
    val cleans: Boolean,
    val separatesChinese: Boolean,
    val stripsAccents: Boolean,
    val lowercases: Boolean,
    val opens: List<Int>,
    val closes: List<Int>,
    val padding: Int,
)

/** The tokenizer of BERT and its kin: words and punctuation apart, then the longest pieces of the vocabulary, greedily. */
class WordPiece(private val format: TextFormat, vocabulary: List<String>) {
    private val places = HashMap<String, Int>(vocabulary.size * 2).apply { vocabulary.forEachIndexed { id, token -> put(token, id) } }
    private val unknown = requireNotNull(places[format.unknown]) { "the vocabulary lacks ${format.unknown}" }

    /** Ids with those around the text, at most [limit]: what is longer is cut at its end. */
    fun encode(text: String, limit: Int): List<Int> {
        val room = maxOf(0, limit - format.opens.size - format.closes.size)
        return format.opens + split(normalize(text)).flatMap(::piecesOf).take(room) + format.closes
    }

    private fun normalize(text: String): String {
        val kept = StringBuilder()
        text.codePoints().forEach { code ->
            when {
                format.cleans && (code == 0 || code == REPLACEMENT || isControl(code)) -> Unit
                format.cleans && isSpace(code) -> kept.append(' ')
                format.separatesChinese && isChinese(code) -> kept.append(' ').appendCodePoint(code).append(' ')
                else -> kept.appendCodePoint(code)
            }
        }
        val plain = if (format.stripsAccents) stripAccents(kept) else kept.toString()
        if (!format.lowercases) return plain
        // One by one: a whole word's lower case knows a final sigma, which this tokenizer does not.
        return buildString { plain.codePoints().forEach { append(String(Character.toChars(it)).lowercase(Locale.ROOT)) } }
    }

    private fun stripAccents(text: CharSequence): String = buildString {
        Normalizer.normalize(text, Normalizer.Form.NFD).codePoints().forEach { code ->
            if (Character.getType(code) != Character.NON_SPACING_MARK.toInt()) appendCodePoint(code)
        }
    }

    /** Words without the space between them; each sign of punctuation is a word. */
    private fun split(text: String): List<String> {
        val words = ArrayList<String>()
        val word = StringBuilder()
        fun end() {
            if (word.isNotEmpty()) words += word.toString()
            word.clear()
        }
        text.codePoints().forEach { code ->
            when {
                isSpace(code) -> end()
                isPunctuation(code) -> {
                    end()
                    words += String(Character.toChars(code))
                }
                else -> word.appendCodePoint(code)
            }
        }
        end()
        return words
    }

    private fun piecesOf(word: String): List<Int> {
        val codes = word.codePoints().toArray()
        if (codes.size > format.longestWord) return listOf(unknown)
        val pieces = ArrayList<Int>()
        var start = 0
        while (start < codes.size) {
            val lead = if (start == 0) "" else format.prefix
            val end = (codes.size downTo start + 1).firstOrNull { places.containsKey(lead + String(codes, start, it - start)) }
                ?: return listOf(unknown)
            pieces += places.getValue(lead + String(codes, start, end - start))
            start = end
        }
        return pieces
    }

    private companion object {
        const val REPLACEMENT = 0xfffd

        fun isSpace(code: Int): Boolean = code in 9..13 || code == 0x85 || Character.isSpaceChar(code)

        fun isControl(code: Int): Boolean = code != 9 && code != 10 && code != 13 && Character.getType(code).toByte() in CONTROLS

        fun isPunctuation(code: Int): Boolean =
            code in 33..47 || code in 58..64 || code in 91..96 || code in 123..126 || Character.getType(code).toByte() in PUNCTUATION

        fun isChinese(code: Int): Boolean = CHINESE.any { code in it }

        val CONTROLS = setOf(Character.CONTROL, Character.FORMAT, Character.UNASSIGNED, Character.PRIVATE_USE)
        val PUNCTUATION = setOf(
            Character.CONNECTOR_PUNCTUATION, Character.DASH_PUNCTUATION, Character.START_PUNCTUATION,
            Character.END_PUNCTUATION, Character.INITIAL_QUOTE_PUNCTUATION, Character.FINAL_QUOTE_PUNCTUATION,
            Character.OTHER_PUNCTUATION,
        )
        val CHINESE = listOf(
            0x4e00..0x9fff, 0x3400..0x4dbf, 0x20000..0x2a6df, 0x2a700..0x2b73f, 0x2b740..0x2b81f, 0x2b920..0x2ceaf,
            0xf900..0xfaff, 0x2f800..0x2fa1f,
        )
    }
}
