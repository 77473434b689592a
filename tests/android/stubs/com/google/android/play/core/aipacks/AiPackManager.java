package com.google.android.play.core.aipacks;

public interface AiPackManager {
    AiPackLocation getPackLocation(String packName);
    com.google.android.gms.tasks.Task<AiPackStates> fetch(java.util.List<String> packNames);
}
