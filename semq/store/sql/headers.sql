-- Conversion of what the node stores in its own form to JSON, for the view semq_inbox.

-- The first value of MessagePack at a place, and the place after it. Long arrays and maps are built at once, because appending to
-- a jsonb copies all of it. Decimals are texts, timestamps numbers (semq.engine.stored_envelopes).
CREATE OR REPLACE FUNCTION semq_unpack(data bytea, INOUT place int DEFAULT 0, OUT value jsonb)
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    head int := get_byte(data, place);
    kind text;
    width int := 0;
    count bigint := 0;
    part bytea;
    names text[] := '{}';
    items jsonb[] := '{}';
    inner_value jsonb;
    bits bigint;
    power int;
BEGIN
    place := place + 1;
    CASE
        WHEN head < 128 THEN value := to_jsonb(head); RETURN;
        WHEN head >= 224 THEN value := to_jsonb(head - 256); RETURN;
        WHEN head < 144 THEN kind := 'map'; count := head & 15;
        WHEN head < 160 THEN kind := 'array'; count := head & 15;
        WHEN head < 192 THEN kind := 'text'; count := head & 31;
        WHEN head = 192 THEN value := 'null'; RETURN;
        WHEN head IN (194, 195) THEN value := to_jsonb(head = 195); RETURN;
        WHEN head BETWEEN 196 AND 198 THEN kind := 'octets'; width := 1 << (head - 196);
        WHEN head BETWEEN 202 AND 203 THEN kind := 'float'; width := 4 << (head - 202);
        WHEN head BETWEEN 204 AND 207 THEN kind := 'unsigned'; width := 1 << (head - 204);
        WHEN head BETWEEN 208 AND 211 THEN kind := 'signed'; width := 1 << (head - 208);
        WHEN head BETWEEN 217 AND 219 THEN kind := 'text'; width := 1 << (head - 217);
        WHEN head BETWEEN 220 AND 221 THEN kind := 'array'; width := 2 << (head - 220);
        WHEN head BETWEEN 222 AND 223 THEN kind := 'map'; width := 2 << (head - 222);
        WHEN head = 215 AND get_byte(data, place) = 2 THEN kind := 'unsigned'; width := 8; place := place + 1;  -- a timestamp
        ELSE kind := 'other'; count := CASE
            WHEN head BETWEEN 212 AND 216 THEN 1 + (1 << (head - 212))
            ELSE 1 END;
            IF head BETWEEN 199 AND 201 THEN
                width := 1 << (head - 199);
            END IF;
    END CASE;
    bits := 0;
    FOR i IN 0 .. width - 1 LOOP
        bits := (bits << 8) | get_byte(data, place + i);
    END LOOP;
    place := place + width;
    IF kind = 'unsigned' THEN
        value := to_jsonb(CASE WHEN bits < 0 THEN bits::numeric + 18446744073709551616 ELSE bits::numeric END);
        RETURN;
    ELSIF kind = 'signed' THEN
        value := to_jsonb(CASE WHEN width < 8 AND bits >= 1::bigint << (8 * width - 1) THEN bits - (1::bigint << (8 * width))
            ELSE bits END);
        RETURN;
    ELSIF kind = 'float' THEN
        IF width = 4 THEN
            power := (bits >> 23 & 255)::int - 150;
            value := CASE WHEN power = 105 THEN 'null'::jsonb ELSE to_jsonb(
                ((bits & 8388607) + CASE WHEN power > -150 THEN 8388608 ELSE 0 END)::float8
                * 2::float8 ^ greatest(power, -149) * CASE WHEN bits >> 31 & 1 = 1 THEN -1 ELSE 1 END) END;
        ELSE
            power := (bits >> 52 & 2047)::int - 1075;
            value := CASE WHEN power = 972 THEN 'null'::jsonb ELSE to_jsonb(
                ((bits & 4503599627370495) + CASE WHEN power > -1075 THEN 4503599627370496 ELSE 0 END)::float8
                * 2::float8 ^ greatest(power, -1000) * 2::float8 ^ least(greatest(power, -1074) + 1000, 0)
                * CASE WHEN bits < 0 THEN -1 ELSE 1 END) END;
        END IF;
        RETURN;
    END IF;
    IF width > 0 THEN
        count := count + bits;
    END IF;
    IF kind IN ('text', 'octets', 'other') THEN
        IF place + count > length(data) THEN
            RAISE EXCEPTION 'SEMQ-1223 the envelope ends too early' USING ERRCODE = 'data_corrupted';
        END IF;
        part := substring(data FROM place + 1 FOR count::int);
        IF kind = 'other' AND get_byte(part, 0) = 1 THEN  -- a decimal
            kind := 'text';
            part := substring(part FROM 2);
        END IF;
        IF kind = 'text' AND position('\x00'::bytea IN part) > 0 THEN
            part := decode(replace(regexp_replace(encode(part, 'hex'), '(..)', '\1 ', 'g'), '00 ', 'efbfbd '), 'hex');
        END IF;
        value := to_jsonb(CASE kind WHEN 'text' THEN convert_from(part, 'UTF8') ELSE encode(part, 'hex') END);
        place := place + count::int;
        RETURN;
    END IF;
    FOR i IN 1 .. count LOOP
        IF kind = 'map' THEN
            SELECT u.place, u.value INTO place, inner_value FROM semq_unpack(data, place) u;
            names[i] := inner_value #>> '{}';
        END IF;
        SELECT u.place, u.value INTO place, inner_value FROM semq_unpack(data, place) u;
        items[i] := inner_value;
    END LOOP;
    IF kind = 'array' THEN
        value := to_jsonb(items);
    ELSE
        value := coalesce((SELECT jsonb_object_agg(m.name, m.item) FROM unnest(names, items) AS m (name, item)), '{}');
    END IF;
END $$;

-- The text of bytes; hexadecimal if they are not UTF-8. Zero characters, which Postgres cannot store in texts, become U+FFFD.
CREATE OR REPLACE FUNCTION semq_text(part bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN convert_from(CASE WHEN position('\x00'::bytea IN part) = 0 THEN part ELSE
        decode(replace(regexp_replace(encode(part, 'hex'), '(..)', '\1 ', 'g'), '00 ', 'efbfbd '), 'hex') END, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire THEN
    RETURN encode(part, 'hex');
END $$;

-- The headers of an application in the form of AMQP (semq.amqp.wire): name, letter and value of each. MessagePack has the same
-- numbers with other letters, so semq_unpack reads them. Decimals are texts, timestamps numbers, bytes hexadecimal texts, and
-- so are texts that are not UTF-8. Without names: the members of an array.
CREATE OR REPLACE FUNCTION semq_fields(data bytea, named boolean DEFAULT true) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    place int := 0;
    letter text;
    width int;
    names text[] := '{}';
    items jsonb[] := '{}';
    number int := 0;
    part bytea;
    value jsonb;
BEGIN
    WHILE place < length(data) LOOP
        number := number + 1;
        IF named THEN
            width := get_byte(data, place);
            names[number] := convert_from(substring(data FROM place + 2 FOR width), 'UTF8');
            place := place + 1 + width;
        END IF;
        letter := chr(get_byte(data, place));
        place := place + 1;
        IF letter IN ('S', 'x', 'F', 'A') THEN
            width := ('x' || encode(substring(data FROM place + 1 FOR 4), 'hex'))::bit(32)::int;
            place := place + 4;
        ELSE
            width := CASE letter
                WHEN 't' THEN 1 WHEN 'b' THEN 1 WHEN 'B' THEN 1 WHEN 's' THEN 2 WHEN 'u' THEN 2 WHEN 'I' THEN 4 WHEN 'i' THEN 4
                WHEN 'f' THEN 4 WHEN 'l' THEN 8 WHEN 'L' THEN 8 WHEN 'd' THEN 8 WHEN 'T' THEN 8 WHEN 'D' THEN 5 WHEN 'V' THEN 0
            END;
        END IF;
        IF width IS NULL OR width < 0 OR place + width > length(data) THEN
            RAISE EXCEPTION 'SEMQ-1223 a header cannot be read' USING ERRCODE = 'data_corrupted';
        END IF;
        part := substring(data FROM place + 1 FOR width);
        place := place + width;
        CASE letter
            WHEN 'S' THEN value := to_jsonb(semq_text(part));
            WHEN 'x' THEN value := to_jsonb(encode(part, 'hex'));
            WHEN 't' THEN value := to_jsonb(get_byte(part, 0) <> 0);
            WHEN 'V' THEN value := 'null';
            WHEN 'F' THEN value := semq_fields(part);
            WHEN 'A' THEN value := semq_fields(part, false);
            WHEN 'D' THEN value := to_jsonb((('x' || encode(substring(part FROM 2), 'hex'))::bit(32)::int
                * ('1e-' || get_byte(part, 0))::numeric)::text);
            ELSE SELECT u.value INTO value FROM semq_unpack(decode(CASE letter
                WHEN 'b' THEN 'd0' WHEN 'B' THEN 'cc' WHEN 's' THEN 'd1' WHEN 'u' THEN 'cd' WHEN 'I' THEN 'd2' WHEN 'i' THEN 'ce'
                WHEN 'f' THEN 'ca' WHEN 'd' THEN 'cb' WHEN 'T' THEN 'cf' ELSE 'd3' END, 'hex') || part) u;
        END CASE;
        items[number] := value;
    END LOOP;
    IF named THEN
        RETURN coalesce((SELECT jsonb_object_agg(m.name, m.item) FROM unnest(names, items) AS m (name, item)), '{}');
    END IF;
    RETURN to_jsonb(items);
END $$;

-- The headers in an unpacked envelope, whose bytes are hexadecimal.
CREATE OR REPLACE FUNCTION semq_headers(stored jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT CASE jsonb_typeof(stored) WHEN 'string' THEN semq_fields(decode(stored #>> '{}', 'hex')) ELSE stored END
$$;

REVOKE ALL ON FUNCTION semq_unpack, semq_text, semq_fields, semq_headers FROM PUBLIC;
