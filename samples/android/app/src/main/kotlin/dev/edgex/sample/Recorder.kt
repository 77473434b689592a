package dev.edgex.sample

import android.annotation.SuppressLint
import android.media.AudioFormat
import android.media.AudioRecord
import android.media.MediaRecorder
import java.io.IOException

/** Sound from the microphone: one channel, values from -1 to 1. */
object Recorder {
    private const val SMALLEST_BUFFER = 4096

    /** Waits until [count] values are there. Asking for the permission is up to the caller. */
    @SuppressLint("MissingPermission") // an app that was not asked to record declares none, and never comes here
    fun record(sampleRate: Int, count: Int): FloatArray {
        val least = AudioRecord.getMinBufferSize(sampleRate, AudioFormat.CHANNEL_IN_MONO, AudioFormat.ENCODING_PCM_FLOAT)
        if (least <= 0) throw IOException("this device's microphone does not give $sampleRate values a second")
        val source = MediaRecorder.AudioSource.VOICE_RECOGNITION
        val bytes = maxOf(least, SMALLEST_BUFFER)
        val recorder = AudioRecord(source, sampleRate, AudioFormat.CHANNEL_IN_MONO, AudioFormat.ENCODING_PCM_FLOAT, bytes)
        try {
            if (recorder.state != AudioRecord.STATE_INITIALIZED) throw IOException("the microphone cannot be opened")
            recorder.startRecording()
            val samples = FloatArray(count)
            var read = 0
            while (read < count) {
                val got = recorder.read(samples, read, count - read, AudioRecord.READ_BLOCKING)
                if (got <= 0) throw IOException("the microphone gives nothing, error $got")
                read += got
            }
            return samples
        } finally {
            recorder.release()
        }
    }
}
