/* SPDX-License-Identifier: Apache-2.0 */
#include "agents/pulse.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define SAMPLE_MS 1000

static void on_second(uv_timer_t *timer)
{
    struct pulse *pulse = timer->data;
    int64_t now_ns = vt_clock_now_ns();
    json_t *series = sampler_take(&pulse->sampler, now_ns);
    if (series)
        uplink_send_json(pulse->uplink, WIRE_SAMPLE, 0,
                         json_pack("{s:I, s:o}", "t_ns", (json_int_t)now_ns, "series", series));
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct pulse *pulse = handle->data;
    (void)number;
    pulse->end(pulse->ctx);
}

void pulse_init(struct pulse *pulse, struct vt_loop *loop, void (*end)(void *ctx), void *ctx)
{
    pulse->end = end;
    pulse->ctx = ctx;
    uv_timer_init(&loop->uv, &pulse->second);
    uv_signal_init(&loop->uv, &pulse->terminate);
    uv_signal_init(&loop->uv, &pulse->interrupt);
    pulse->second.data = pulse->terminate.data = pulse->interrupt.data = pulse;
    uv_signal_start(&pulse->terminate, on_signal, SIGTERM);
    uv_signal_start(&pulse->interrupt, on_signal, SIGINT);
}

static void begin_samples(struct pulse *pulse)
{
    sampler_begin(&pulse->sampler);
    uv_timer_start(&pulse->second, on_second, 0, SAMPLE_MS);
}

void pulse_sample(struct pulse *pulse)
{
    if (!pulse->sampling && pulse->uplink)
        begin_samples(pulse);
    pulse->sampling = true;
}

void pulse_up(struct pulse *pulse, struct uplink *uplink)
{
    pulse->uplink = uplink;
    pulse->last_trouble[0] = '\0';
    if (pulse->sampling)
        begin_samples(pulse);
}

void pulse_down(struct pulse *pulse, const struct vt_error *err)
{
    pulse_stop(pulse);
    pulse->uplink = NULL;
    if (strcmp(pulse->last_trouble, err->text) != 0)
        vt_log(VT_LOG_WARNING, "controller: %s", err->text);
    vt_text_copy(pulse->last_trouble, sizeof pulse->last_trouble, err->text);
}

void pulse_stop(struct pulse *pulse)
{
    uv_timer_stop(&pulse->second);
    sampler_end(&pulse->sampler);
}

void pulse_close(struct pulse *pulse)
{
    uv_close((uv_handle_t *)&pulse->second, NULL);
    uv_close((uv_handle_t *)&pulse->terminate, NULL);
    uv_close((uv_handle_t *)&pulse->interrupt, NULL);
}
