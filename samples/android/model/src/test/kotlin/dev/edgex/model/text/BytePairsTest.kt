package dev.edgex.model.text

import org.junit.Assert.assertEquals
import org.junit.Test

class BytePairsTest {
    private val bytes = (('!'..'~') + ('\u00a1'..'\u00ac') + ('\u00ae'..'\u00ff')).map { it.toString() } +
        (256 until 256 + 68).map { it.toChar().toString() }
    private val vocabulary = bytes + listOf("ab", "abc", "<end>")
    private val format = BytePairFormat(
        "v", "m", listOf("\\p{L}+|[^\\p{L}]"), composes = true, leadingSpace = false, wholeWords = false,
        added = listOf(AddedToken("<end>", vocabulary.lastIndex, isSpecial = true)),
    )
    private val tokenizer = BytePairs(format, vocabulary, listOf("a b", "ab c"))

    private fun write(ids: List<Int>) = tokenizer.Decoder().let { decoder -> ids.map(decoder::add) }

    @Test
    fun `bytes are joined in the order of the merges, within words alone`() {
        assertEquals(listOf("abc", "ab"), tokenizer.encode("abcab").map { vocabulary[it] })
        assertEquals(listOf("abc", "!", "ab"), tokenizer.encode("abc!ab").map { vocabulary[it] })
        assertEquals(listOf("ab", "<end>", "ab"), tokenizer.encode("ab<end>ab").map { vocabulary[it] })
    }

    @Test
    fun `text comes back, and never half a character`() {
        val text = "abc \n é日🙂"
        val pieces = write(tokenizer.encode(text))
        assertEquals(text, pieces.joinToString(""))
        assertEquals(3, pieces.takeLast(4).count { it.isEmpty() })
        assertEquals(listOf("", "ab"), write(tokenizer.encode("<end>ab")))
    }
}
