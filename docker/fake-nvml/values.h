/* Readers of a profile's values; each is false where the text is wrong. */
#ifndef HPCKIT_FAKE_NVML_VALUES_H
#define HPCKIT_FAKE_NVML_VALUES_H

#include "profile.h"

struct word {
    const char *text;
    int code;
};

extern const struct word ANCESTOR_WORDS[], P2P_WORDS[], ERROR_WORDS[];

bool code_of(const struct word *words, const char *text, int *code);
bool take_text(const char *word, char *out, size_t size);
bool take_number(const char *word, int64_t *out);
bool take_scaled(const char *word, double most, int64_t unit, int64_t *out);
bool take_flag(const char *word, bool *out);
bool take_power_usage(const char *word, bool *is_average);
bool take_pids(const char *text, char out[PIDS]);
bool take_mask(const char *text, uint64_t *words, int count);
bool take_pci(const char *text, struct pci *out);
bool take_uuid(const char *text, unsigned char out[16]);
bool take_row(const char *text, const struct word *words, int row[MOST_GPUS], int *count);
bool take_links(const char *text, struct gpu *gpu);
bool take_dead_links(const char *text, struct gpu *gpu);
bool take_switches(const char *text, struct gpu *gpu);
bool take_slices(const char *text, struct gpu *gpu);
bool take_sm(const char *text, struct gpu *gpu);
bool take_nvlink_version(const char *text, struct gpu *gpu);
bool take_fabric_state(const char *text, struct gpu *gpu);

#endif
